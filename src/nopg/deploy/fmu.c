/* An exported controller as a co-simulation unit of FMI 2.0.
 *
 * The types and functions below are those that the standard asks a unit to have. Reals are the measured
 * values, the applied and the fallback actions, then the actions and the unknown share.
 */
#include "control.h"
#include "identity.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#if defined(_WIN32)
#define EXPORTED __declspec(dllexport)
#else
#define EXPORTED __attribute__((visibility("default")))
#endif
/* A declaration, then the head of the definition. */
#define FMI(...) EXPORTED __VA_ARGS__; EXPORTED __VA_ARGS__

#define APPLIED CONTROL_MEASURED
#define FALLBACK (APPLIED + CONTROL_ACTIONS)
#define ACTIONS (FALLBACK + CONTROL_ACTIONS)
#define UNKNOWN (ACTIONS + CONTROL_ACTIONS)
#define REALS (UNKNOWN + 1)
#define INTEGERS 1
#define BOOLEANS 2

/* Share of a sampling interval by which a communication point may be early. */
#define EARLY 1e-6

typedef enum { STATUS_OK, STATUS_WARNING, STATUS_DISCARD, STATUS_ERROR } fmi_status;

typedef struct {
    control_memory memory;
    double reals[REALS];
    int integers[INTEGERS];
    int booleans[BOOLEANS];
    double first_time;
    double next_time;
    bool running;
} unit;

#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wunused-parameter"
#endif

static void clear(unit *one)
{
    (void)memset(one, 0, sizeof(*one));
    control_init(&one->memory);
    one->reals[UNKNOWN] = 1.0;
    one->integers[0] = CONTROL_NO_ACTION;
}

FMI(const char *fmi2GetTypesPlatform(void))
{
    return "default";
}

FMI(const char *fmi2GetVersion(void))
{
    return "2.0";
}

FMI(void *fmi2Instantiate(const char *name, int type, const char *identity, const char *resources,
    const void *callbacks, int visible, int logging))
{
    const bool fits = (type == 1) && (identity != NULL) && (strcmp(identity, FMU_IDENTITY) == 0);
    unit *one = fits ? malloc(sizeof(unit)) : NULL;
    if (one != NULL) {
        clear(one);
    }
    return one;
}

FMI(void fmi2FreeInstance(void *of))
{
    free(of);
}

FMI(fmi_status fmi2Reset(void *of))
{
    clear(of);
    return STATUS_OK;
}

/* Values of one type, of which those below a reference can be set. */
#define VALUES(getter, setter, type, field, known, inputs)                                                   \
    FMI(fmi_status getter(void *of, const unsigned int at[], size_t count, type values[]))                   \
    {                                                                                                        \
        const unit *one = of;                                                                                \
        fmi_status status = STATUS_OK;                                                                       \
        for (size_t i = 0; i < count; i++) {                                                                 \
            if ((long long)at[i] < (known)) {                                                                \
                values[i] = one->field[at[i]];                                                               \
            } else {                                                                                         \
                status = STATUS_ERROR;                                                                       \
            }                                                                                                \
        }                                                                                                    \
        return status;                                                                                       \
    }                                                                                                        \
    FMI(fmi_status setter(void *of, const unsigned int at[], size_t count, const type values[]))             \
    {                                                                                                        \
        unit *one = of;                                                                                      \
        fmi_status status = STATUS_OK;                                                                       \
        for (size_t i = 0; i < count; i++) {                                                                 \
            if ((long long)at[i] < (inputs)) {                                                               \
                one->field[at[i]] = values[i];                                                               \
            } else {                                                                                         \
                status = STATUS_ERROR;                                                                       \
            }                                                                                                \
        }                                                                                                    \
        return status;                                                                                       \
    }

VALUES(fmi2GetReal, fmi2SetReal, double, reals, REALS, ACTIONS)
VALUES(fmi2GetInteger, fmi2SetInteger, int, integers, INTEGERS, 0)
VALUES(fmi2GetBoolean, fmi2SetBoolean, int, booleans, BOOLEANS, BOOLEANS)

FMI(fmi_status fmi2DoStep(void *of, double time, double duration, int no_earlier_state))
{
    unit *one = of;
    if (!one->running) {
        one->running = true;
        one->first_time = time;
        one->next_time = time;
    }
    if (time >= one->next_time - (EARLY * FMU_INTERVAL)) {
        const double *applied = (one->booleans[0] != 0) ? &one->reals[APPLIED] : NULL;
        const double *fallback = (one->booleans[1] != 0) ? &one->reals[FALLBACK] : NULL;
        one->integers[0] =
            control_step(&one->memory, one->reals, applied, fallback, time, NAN, &one->reals[ACTIONS]);
        one->reals[UNKNOWN] = one->memory.unknown;
        if (FMU_INTERVAL > 0.0) {
            const double passed = floor(((time - one->first_time) / FMU_INTERVAL) + EARLY);
            one->next_time = one->first_time + ((passed + 1.0) * FMU_INTERVAL);
        }
    }
    return STATUS_OK;
}

/* What needs nothing, and what the unit does not offer; the description says so. */
#define ANSWERS(status, ...)                                                                                 \
    FMI(fmi_status __VA_ARGS__)                                                                              \
    {                                                                                                        \
        return status;                                                                                       \
    }

ANSWERS(STATUS_OK, fmi2SetDebugLogging(void *of, int on, size_t count, const char *const categories[]))
ANSWERS(STATUS_OK,
    fmi2SetupExperiment(void *of, int has_tolerance, double tolerance, double start, int has_stop, double stop))
ANSWERS(STATUS_OK, fmi2EnterInitializationMode(void *of))
ANSWERS(STATUS_OK, fmi2ExitInitializationMode(void *of))
ANSWERS(STATUS_OK, fmi2Terminate(void *of))
ANSWERS(STATUS_ERROR, fmi2CancelStep(void *of))
ANSWERS((count == 0) ? STATUS_OK : STATUS_ERROR,
    fmi2GetString(void *of, const unsigned int at[], size_t count, const char *values[]))
ANSWERS((count == 0) ? STATUS_OK : STATUS_ERROR,
    fmi2SetString(void *of, const unsigned int at[], size_t count, const char *const values[]))
ANSWERS(STATUS_ERROR, fmi2GetFMUstate(void *of, void **state))
ANSWERS(STATUS_ERROR, fmi2SetFMUstate(void *of, void *state))
ANSWERS(STATUS_ERROR, fmi2FreeFMUstate(void *of, void **state))
ANSWERS(STATUS_ERROR, fmi2SerializedFMUstateSize(void *of, void *state, size_t *size))
ANSWERS(STATUS_ERROR, fmi2SerializeFMUstate(void *of, void *state, char bytes[], size_t size))
ANSWERS(STATUS_ERROR, fmi2DeSerializeFMUstate(void *of, const char bytes[], size_t size, void **state))
ANSWERS(STATUS_ERROR, fmi2GetDirectionalDerivative(void *of, const unsigned int unknown[], size_t unknowns,
    const unsigned int known[], size_t knowns, const double along[], double derivatives[]))
ANSWERS(STATUS_ERROR, fmi2SetRealInputDerivatives(void *of, const unsigned int at[], size_t count,
    const int order[], const double values[]))
ANSWERS(STATUS_ERROR, fmi2GetRealOutputDerivatives(void *of, const unsigned int at[], size_t count,
    const int order[], double values[]))
ANSWERS(STATUS_ERROR, fmi2GetStatus(void *of, int kind, int *value))
ANSWERS(STATUS_ERROR, fmi2GetRealStatus(void *of, int kind, double *value))
ANSWERS(STATUS_ERROR, fmi2GetIntegerStatus(void *of, int kind, int *value))
ANSWERS(STATUS_ERROR, fmi2GetBooleanStatus(void *of, int kind, int *value))
ANSWERS(STATUS_ERROR, fmi2GetStringStatus(void *of, int kind, const char **value))
