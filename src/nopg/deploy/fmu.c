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

static void clear(unit *one)
{
    (void)memset(one, 0, sizeof(*one));
    control_init(&one->memory);
    one->reals[UNKNOWN] = 1.0;
    one->integers[0] = CONTROL_NO_ACTION;
}

EXPORTED const char *fmi2GetTypesPlatform(void);
EXPORTED const char *fmi2GetTypesPlatform(void)
{
    return "default";
}

EXPORTED const char *fmi2GetVersion(void);
EXPORTED const char *fmi2GetVersion(void)
{
    return "2.0";
}

EXPORTED fmi_status fmi2SetDebugLogging(void *of, int on, size_t count, const char *const categories[]);
EXPORTED fmi_status fmi2SetDebugLogging(void *of, int on, size_t count, const char *const categories[])
{
    (void)of, (void)on, (void)count, (void)categories;
    return STATUS_OK;
}

EXPORTED void *fmi2Instantiate(const char *name, int type, const char *identity, const char *resources,
    const void *callbacks, int visible, int logging);
EXPORTED void *fmi2Instantiate(const char *name, int type, const char *identity, const char *resources,
    const void *callbacks, int visible, int logging)
{
    const bool fits = (type == 1) && (identity != NULL) && (strcmp(identity, FMU_IDENTITY) == 0);
    unit *one = fits ? malloc(sizeof(unit)) : NULL;
    (void)name, (void)resources, (void)callbacks, (void)visible, (void)logging;
    if (one != NULL) {
        clear(one);
    }
    return one;
}

EXPORTED void fmi2FreeInstance(void *of);
EXPORTED void fmi2FreeInstance(void *of)
{
    free(of);
}

EXPORTED fmi_status fmi2SetupExperiment(
    void *of, int has_tolerance, double tolerance, double start, int has_stop, double stop);
EXPORTED fmi_status fmi2SetupExperiment(
    void *of, int has_tolerance, double tolerance, double start, int has_stop, double stop)
{
    (void)of, (void)has_tolerance, (void)tolerance, (void)start, (void)has_stop, (void)stop;
    return STATUS_OK;
}

EXPORTED fmi_status fmi2EnterInitializationMode(void *of);
EXPORTED fmi_status fmi2EnterInitializationMode(void *of)
{
    (void)of;
    return STATUS_OK;
}

EXPORTED fmi_status fmi2ExitInitializationMode(void *of);
EXPORTED fmi_status fmi2ExitInitializationMode(void *of)
{
    (void)of;
    return STATUS_OK;
}

EXPORTED fmi_status fmi2Terminate(void *of);
EXPORTED fmi_status fmi2Terminate(void *of)
{
    (void)of;
    return STATUS_OK;
}

EXPORTED fmi_status fmi2Reset(void *of);
EXPORTED fmi_status fmi2Reset(void *of)
{
    clear(of);
    return STATUS_OK;
}

EXPORTED fmi_status fmi2GetReal(void *of, const unsigned int at[], size_t count, double values[]);
EXPORTED fmi_status fmi2GetReal(void *of, const unsigned int at[], size_t count, double values[])
{
    const unit *one = of;
    fmi_status status = STATUS_OK;
    for (size_t i = 0; i < count; i++) {
        if (at[i] < REALS) {
            values[i] = one->reals[at[i]];
        } else {
            status = STATUS_ERROR;
        }
    }
    return status;
}

EXPORTED fmi_status fmi2SetReal(void *of, const unsigned int at[], size_t count, const double values[]);
EXPORTED fmi_status fmi2SetReal(void *of, const unsigned int at[], size_t count, const double values[])
{
    unit *one = of;
    fmi_status status = STATUS_OK;
    for (size_t i = 0; i < count; i++) {
        if (at[i] < ACTIONS) {
            one->reals[at[i]] = values[i];
        } else {
            status = STATUS_ERROR;
        }
    }
    return status;
}

EXPORTED fmi_status fmi2GetInteger(void *of, const unsigned int at[], size_t count, int values[]);
EXPORTED fmi_status fmi2GetInteger(void *of, const unsigned int at[], size_t count, int values[])
{
    const unit *one = of;
    fmi_status status = STATUS_OK;
    for (size_t i = 0; i < count; i++) {
        if (at[i] < INTEGERS) {
            values[i] = one->integers[at[i]];
        } else {
            status = STATUS_ERROR;
        }
    }
    return status;
}

EXPORTED fmi_status fmi2SetInteger(void *of, const unsigned int at[], size_t count, const int values[]);
EXPORTED fmi_status fmi2SetInteger(void *of, const unsigned int at[], size_t count, const int values[])
{
    (void)of, (void)at, (void)values;
    return (count == 0) ? STATUS_OK : STATUS_ERROR;
}

EXPORTED fmi_status fmi2GetBoolean(void *of, const unsigned int at[], size_t count, int values[]);
EXPORTED fmi_status fmi2GetBoolean(void *of, const unsigned int at[], size_t count, int values[])
{
    const unit *one = of;
    fmi_status status = STATUS_OK;
    for (size_t i = 0; i < count; i++) {
        if (at[i] < BOOLEANS) {
            values[i] = one->booleans[at[i]];
        } else {
            status = STATUS_ERROR;
        }
    }
    return status;
}

EXPORTED fmi_status fmi2SetBoolean(void *of, const unsigned int at[], size_t count, const int values[]);
EXPORTED fmi_status fmi2SetBoolean(void *of, const unsigned int at[], size_t count, const int values[])
{
    unit *one = of;
    fmi_status status = STATUS_OK;
    for (size_t i = 0; i < count; i++) {
        if (at[i] < BOOLEANS) {
            one->booleans[at[i]] = values[i];
        } else {
            status = STATUS_ERROR;
        }
    }
    return status;
}

EXPORTED fmi_status fmi2GetString(void *of, const unsigned int at[], size_t count, const char *values[]);
EXPORTED fmi_status fmi2GetString(void *of, const unsigned int at[], size_t count, const char *values[])
{
    (void)of, (void)at, (void)values;
    return (count == 0) ? STATUS_OK : STATUS_ERROR;
}

EXPORTED fmi_status fmi2SetString(
    void *of, const unsigned int at[], size_t count, const char *const values[]);
EXPORTED fmi_status fmi2SetString(
    void *of, const unsigned int at[], size_t count, const char *const values[])
{
    (void)of, (void)at, (void)values;
    return (count == 0) ? STATUS_OK : STATUS_ERROR;
}

EXPORTED fmi_status fmi2DoStep(void *of, double time, double duration, int no_earlier_state);
EXPORTED fmi_status fmi2DoStep(void *of, double time, double duration, int no_earlier_state)
{
    unit *one = of;
    (void)duration, (void)no_earlier_state;
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

EXPORTED fmi_status fmi2CancelStep(void *of);
EXPORTED fmi_status fmi2CancelStep(void *of)
{
    (void)of;
    return STATUS_ERROR;
}

/* What the unit does not offer; the description says so. */
#define NOT_OFFERED(name, ...)                                                                               \
    EXPORTED fmi_status name(__VA_ARGS__);                                                                   \
    EXPORTED fmi_status name(__VA_ARGS__)                                                                    \
    {                                                                                                        \
        return STATUS_ERROR;                                                                                 \
    }

#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wunused-parameter"
#endif

NOT_OFFERED(fmi2GetFMUstate, void *of, void **state)
NOT_OFFERED(fmi2SetFMUstate, void *of, void *state)
NOT_OFFERED(fmi2FreeFMUstate, void *of, void **state)
NOT_OFFERED(fmi2SerializedFMUstateSize, void *of, void *state, size_t *size)
NOT_OFFERED(fmi2SerializeFMUstate, void *of, void *state, char bytes[], size_t size)
NOT_OFFERED(fmi2DeSerializeFMUstate, void *of, const char bytes[], size_t size, void **state)
NOT_OFFERED(fmi2GetDirectionalDerivative, void *of, const unsigned int unknown[], size_t unknowns,
    const unsigned int known[], size_t knowns, const double along[], double derivatives[])
NOT_OFFERED(fmi2SetRealInputDerivatives, void *of, const unsigned int at[], size_t count, const int order[],
    const double values[])
NOT_OFFERED(fmi2GetRealOutputDerivatives, void *of, const unsigned int at[], size_t count, const int order[],
    double values[])
NOT_OFFERED(fmi2GetStatus, void *of, int kind, int *value)
NOT_OFFERED(fmi2GetRealStatus, void *of, int kind, double *value)
NOT_OFFERED(fmi2GetIntegerStatus, void *of, int kind, int *value)
NOT_OFFERED(fmi2GetBooleanStatus, void *of, int kind, int *value)
NOT_OFFERED(fmi2GetStringStatus, void *of, int kind, const char **value)
