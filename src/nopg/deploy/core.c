/* One step of a guarded controller, with the decisions of nopg.deploy.GuardedController.act.
 *
 * This file is the same for every controller. The file that includes it has the numbers of one, and names its
 * INIT, STEP and MEMORY. No allocation, no recursion, no data that change but those of the caller; every loop
 * has a fixed count.
 */
#include <float.h>
#include <math.h>
#include <stddef.h>

#ifdef __FAST_MATH__
#error "missing values are NaN: compile without -ffast-math"
#endif

#define INPUTS (STATES + ACTIONS)

enum { LEARNED, FALLBACK, LAST_RESORT, NO_ACTION };
enum { LINEAR, NETWORK, FORMULAS };
enum {
    NUMBER, COLUMN, ADD, SUBTRACT, MULTIPLY, DIVIDE, POWER, NEGATIVE, ABS, MIN, MAX, SQRT, EXP, LOG, SIN, COS,
    TANH, EDGE, HOLDS
};

/* NaN if an argument is NaN, unlike fmin and fmax. */
static double smaller(double a, double b)
{
    return (isnan(a) || (a < b)) ? a : b;
}

static double larger(double a, double b)
{
    return (isnan(a) || (a > b)) ? a : b;
}

static double clipped(double value, double lowest, double highest)
{
    return smaller(larger(value, lowest), highest);
}

/* False for NaN, infinity, and an angle so large that it has no direction. */
static bool usable(double value, double most)
{
    return (-most <= value) && (value <= most);
}

static bool all_finite(const double *values, int count)
{
    bool finite = true;
    for (int i = 0; i < count; i++) {
        finite = finite && isfinite(values[i]);
    }
    return finite;
}

/* ---- Sensors and state ---- */

/* Time stamps advance and are not older than the deadline; after a gap the memory starts anew. */
static bool clock_fails(MEMORY *m, double at, double now)
{
    const bool timed = isfinite(at);
    const bool aged = isfinite(now);
    const double passed = at - m->last_time;
    const bool follows = timed && m->last_time_known;
    bool fails = false;
    if (follows && ((passed < 0.0) || (passed > GAP))) {
        m->state_known = false;
        m->last_known = false;
        for (int i = 0; i < MEASURED; i++) {
            m->age[i] = 0.0;
            m->seen[i] = false;
        }
    }
    if (DEADLINE > 0.0) {
        fails = !timed || (follows && ((passed <= 0.0) || (!aged && (passed > DEADLINE))))
            || (aged && ((now - at) > DEADLINE));
    }
    m->last_time_known = timed;
    m->last_time = timed ? at : 0.0;
    return fails;
}

/* A value that has not changed for many steps is a fault. */
static bool sensor_hangs(MEMORY *m, const double *measured, const bool *absent)
{
    bool hangs = false;
    for (int i = 0; i < MEASURED; i++) {
        if (!absent[i]) {
            const bool same = m->measured_known[i] && (m->last_measured[i] <= measured[i])
                && (measured[i] <= m->last_measured[i]);
            m->repeats[i] = same ? m->repeats[i] + 1.0 : 0.0;
            m->last_measured[i] = measured[i];
            m->measured_known[i] = true;
        }
        hangs = hangs || (frozen[i] <= m->repeats[i]);
    }
    return hangs;
}

static void remember(MEMORY *m, const double *action)
{
    for (int i = 0; i < ACTIONS; i++) {
        m->last[i] = action[i];
        m->origin[i] = action[i];
    }
    m->last_known = true;
    m->origin_known = true;
}

/* A derived column from the last step, or at a start from the measurements. */
static double derived_column(const MEMORY *m, int k, const double *measured, bool goes_on)
{
    double value = goes_on ? update_constant[k] : first_constant[k];
    if (!goes_on && (lagged[k] >= 0) && m->last_known) {
        return m->last[lagged[k]];
    }
    for (int i = 0; goes_on && (i < STATES); i++) {
        value += by_state[(k * STATES) + i] * m->state[i];
    }
    for (int i = 0; goes_on && NEEDS_ACTIONS && (i < ACTIONS); i++) {
        value += by_action[(k * ACTIONS) + i] * m->last[i];
    }
    for (int i = 0; i < MEASURED; i++) {
        value += (goes_on ? by_next : first)[(k * MEASURED) + i] * measured[i];
    }
    return value;
}

/* A missing value is the last one while it may be held; derived columns follow. */
static void next_state(MEMORY *m, const double *measured, const bool *absent)
{
    double next[STATES];
    bool whole = true;
    for (int i = 0; i < MEASURED; i++) {
        const bool held = absent[i] && (m->age[i] < hold[i]);
        m->seen[i] = !absent[i] || (held && m->seen[i]);
        m->age[i] = absent[i] ? m->age[i] + 1.0 : 0.0;
        next[i] = !m->seen[i] ? 0.0 : (held ? m->state[i] : measured[i]);
        whole = whole && m->seen[i];
    }
    const bool goes_on = whole && m->state_known && (!NEEDS_ACTIONS || m->last_known);
    for (int k = 0; k < DERIVED; k++) {
        next[MEASURED + k] = derived_column(m, k, next, goes_on);
    }
    for (int i = 0; i < STATES; i++) {
        m->state[i] = next[i];
    }
    m->state_known = whole && all_finite(next, STATES);
    m->last_known = false;
}

/* Coordinates scale wave((x - origin) / unit) of raw inputs; an angle gives its cosine, then its sine. */
static void embed(int map, const double *input, double *point)
{
    for (int p = 0; p < maps_size[map]; p++) {
        double x = (input[maps_columns[map][p]] - maps_origins[map][p]) / maps_units[map][p];
        if (HAS_ANGLES && (maps_waves[map][p] != 0)) {
            x = (maps_waves[map][p] == 1) ? cos(x) : sin(x);
        }
        point[p] = maps_scales[map][p] * x;
    }
}

/* ---- Where the data are: log-odds l + b (delta^2 + beta^2 + sigma^2) of the unknown share ---- */

/* The nearest charts of a shape and their squared distances, in rising order. */
static void nearest_charts(int shape, const double *input, double *squared, int *chosen)
{
    const int count = charts_nearest[shape];
    const int size = maps_size[1 + shape];
    double point[POINTS];
    embed(1 + shape, input, point);
    for (int i = 0; i < count; i++) {
        squared[i] = DBL_MAX;
        chosen[i] = 0;
    }
    for (int chart = 0; chart < charts_count[shape]; chart++) {
        double distance = 0.0;
        int number = chart;
        for (int p = 0; p < size; p++) {
            const double apart = point[p] - charts_places[shape][(chart * size) + p];
            distance += apart * apart;
        }
        /* Insert it if it is nearer than the last. */
        for (int i = 0; (distance < squared[count - 1]) && (i < count); i++) {
            if (distance < squared[i]) {
                const double other = squared[i];
                const int other_number = chosen[i];
                squared[i] = distance;
                chosen[i] = number;
                distance = other;
                number = other_number;
            }
        }
    }
}

/* delta^2: distance from a chart in radii, and the uncertainty of its slopes. */
static double chart_distance(int shape, int chart, double squared, const double *input)
{
    double apart[INPUTS];
    double value = squared / charts_squared_radii[shape][chart];
    for (int i = 0; i < INPUTS; i++) {
        apart[i] = input[i] - charts_centers[shape][(chart * INPUTS) + i];
        if (HAS_ANGLES && (period[i] > 0.0)) {
            apart[i] -= rint(apart[i] / period[i]) * period[i];
        }
    }
    for (int i = 0; i < INPUTS; i++) {
        for (int j = 0; j < INPUTS; j++) {
            value += charts_covariance[shape][(((chart * INPUTS) + i) * INPUTS) + j] * apart[i] * apart[j];
        }
    }
    return value;
}

/* The charts next to the input, blended; at the next nearest one the weight of the last has fallen to 0. */
static double blended_distance(int shape, const double *input)
{
    const int count = charts_nearest[shape];
    double squared[NEAREST];
    double total = 0.0;
    double sum = 0.0;
    int chosen[NEAREST];
    nearest_charts(shape, input, squared, chosen);
    if (count == 1) {
        return chart_distance(shape, chosen[0], squared[0], input);
    }
    for (int i = 0; i < count - 1; i++) {
        const double rest = 1.0 - smaller(squared[i] / larger(squared[count - 1], DBL_MIN), 1.0);
        const double share = (rest * rest) + TINY;
        sum += share * chart_distance(shape, chosen[i], squared[i], input);
        total += share;
    }
    return sum / total;
}

/* sigma^2: the variance of a polynomial over all data. */
static double fit_variance(int fit, const double *input)
{
    const int q = maps_size[1 + CHARTS + fit];
    double feature[FITTED];
    double value = 0.0;
    embed(1 + CHARTS + fit, input, feature);
    for (int k = q, i = 0; (k < fits_size[fit]) && (i < q); i++) {
        for (int j = i; j < q; j++) {
            feature[k] = feature[i] * feature[j];
            k++;
        }
    }
    for (int k = 0; k < fits_size[fit]; k++) {
        feature[k] -= fits_center[fit][k];
    }
    for (int k = 0; k < fits_size[fit]; k++) {
        for (int j = 0; j < fits_size[fit]; j++) {
            value += fits_covariance[fit][(k * fits_size[fit]) + j] * feature[k] * feature[j];
        }
    }
    return value;
}

static double unknown_share(const double *state, const double *action)
{
    double input[INPUTS];
    double value = 0.0;
    for (int i = 0; i < INPUTS; i++) {
        input[i] = (i < STATES) ? state[i] : action[i - STATES];
    }
    for (int shape = 0; shape < CHARTS; shape++) {
        value = larger(value, blended_distance(shape, input));
    }
    for (int i = 0; i < INPUTS; i++) {
        const double beyond = (input[i] - clipped(input[i], logged_low[i], logged_high[i])) / margin[i];
        value += beyond * beyond;
    }
    for (int fit = 0; fit < FITS; fit++) {
        value += fit_variance(fit, input);
    }
    value = ODDS_INSIDE + (ODDS_SLOPE * value);
    return isnan(value) ? 1.0 : 1.0 / (1.0 + exp(-value));
}

/* ---- The policy: one law, or two of which the first may deviate a little from the second ---- */

static void dense(const double *weight, const double *bias, const double *x, int rows, int columns, double *y)
{
    for (int i = 0; i < rows; i++) {
        y[i] = bias[i];
        for (int j = 0; j < columns; j++) {
            y[i] += weight[(i * columns) + j] * x[j];
        }
    }
}

static void network(int law, const double *features, double *actions)
{
    double scaled[FEATURES];
    double units[UNITS];
    for (int i = 0; i < FEATURES; i++) {
        scaled[i] = (features[i] - laws_mean[law][i]) / laws_std[law][i];
    }
    dense(laws_hidden[law], laws_hidden_bias[law], scaled, laws_units[law], FEATURES, units);
    for (int i = 0; i < laws_units[law]; i++) {
        units[i] = larger(units[i], 0.0);
    }
    dense(laws_output[law], laws_output_bias[law], units, ACTIONS, laws_units[law], actions);
    for (int i = 0; i < ACTIONS; i++) {
        actions[i] = laws_center[law][i] + (laws_radius[law][i] * tanh(actions[i]));
    }
}

static double operated(int kind, double a, double b)
{
    switch (kind) {
    case ADD: return a + b;
    case SUBTRACT: return a - b;
    case MULTIPLY: return a * b;
    case DIVIDE: return a / b;
    case POWER: return pow(a, b);
    case NEGATIVE: return -a;
    case ABS: return fabs(a);
    case MIN: return smaller(a, b);
    case MAX: return larger(a, b);
    case SQRT: return sqrt(a);
    case EXP: return exp(a);
    case LOG: return log(a);
    case SIN: return sin(a);
    case COS: return cos(a);
    case TANH: return tanh(a);
    case EDGE: return ((a < 0.0) || (a > 0.0) || isnan(a)) ? a : 1e-30;
    default: return (a > 0.0) ? 1.0 : 0.0;
    }
}

/* Formulas of the state: a list of operations on the results of earlier ones. */
static void formulas(int law, const double *features, double *actions)
{
    double raw[STATES];
    double found[OPERATIONS];
    for (int i = 0, k = 0; i < STATES; i++, k++) {
        raw[i] = features[k];
        if (HAS_ANGLES && (period[i] > 0.0)) {
            raw[i] = atan2(features[k + 1], features[k]) * radian[i];
            k++;
        }
    }
    for (int n = 0; n < laws_operations[law]; n++) {
        const int left = laws_left[law][n];
        if (laws_kind[law][n] == NUMBER) {
            found[n] = laws_number[law][n];
        } else if (laws_kind[law][n] == COLUMN) {
            found[n] = raw[left];
        } else {
            found[n] = operated(laws_kind[law][n], found[left], found[laws_right[law][n]]);
        }
    }
    for (int i = 0; i < ACTIONS; i++) {
        actions[i] = clipped(found[laws_result[law][i]], laws_low[law][i], laws_high[law][i]);
    }
}

static void acted_by(int law, const double *features, double *actions)
{
    if (HAS_NETWORK && (laws_type[law] == NETWORK)) {
        network(law, features, actions);
    } else if (HAS_FORMULAS && (laws_type[law] == FORMULAS)) {
        formulas(law, features, actions);
    } else {
        dense(laws_output[law], laws_output_bias[law], features, ACTIONS, FEATURES, actions);
    }
}

static void policy(const double *features, double *actions)
{
    double base[ACTIONS];
    acted_by(0, features, actions);
    for (int i = 0; i < ACTIONS; i++) {
        const double asked = actions[i];
        for (int k = 0; (k < LEVELS) && (discrete[i] != 0); k++) {
            const double *level = &levels[(i * LEVELS) + k];
            if ((k == 0) || (asked > ((level[-1] + level[0]) / 2.0))) {
                actions[i] = *level;
            }
        }
    }
    if (LAWS > 1) {
        acted_by(LAWS - 1, features, base);
        for (int i = 0; i < ACTIONS; i++) {
            actions[i] = base[i] + clipped(actions[i] - base[i], -deviation[i], deviation[i]);
        }
    }
}

/* ---- Who acts ---- */

/* The action of the policy within its limits, and the unknown share there; false if it is not finite. */
static bool policy_answers(MEMORY *m, double *asked)
{
    double features[FEATURES];
    m->unknown = 1.0;
    if (!m->state_known) {
        return false;
    }
    for (int i = 0; i < STATES; i++) {
        if (!usable(m->state[i], largest[i])) {
            return false;
        }
    }
    embed(0, m->state, features);
    policy(features, asked);
    if (!all_finite(asked, ACTIONS)) {
        return false;
    }
    for (int i = 0; i < ACTIONS; i++) {
        asked[i] = clipped(asked[i], low[i], high[i]);
    }
    m->unknown = unknown_share(m->state, asked);
    return true;
}

/* The policy acts at once from the start, after the dwell time from elsewhere. */
static bool policy_acts(MEMORY *m, bool fault, double *asked)
{
    const bool away = m->acted > LEARNED + 1;
    const bool answers = policy_answers(m, asked);
    return answers && !fault && (m->unknown <= MOST_UNKNOWN)
        && !(away && ((m->waited < DWELL) || (m->unknown > RETURN_UNKNOWN)));
}

/* Without the policy the fallback acts; without both the last resort, which may be the last action. */
static int choose(const MEMORY *m, const double *fallback, double *asked)
{
    const bool has_fallback = (fallback != NULL) && all_finite(fallback, ACTIONS);
    const double *action = HAS_LAST_RESORT ? last_resort : m->origin;
    int status = (HAS_LAST_RESORT || m->origin_known) ? LAST_RESORT : NO_ACTION;
    if (has_fallback) {
        action = fallback;
        status = FALLBACK;
    }
    for (int i = 0; i < ACTIONS; i++) {
        asked[i] = action[i];
    }
    return status;
}

/* After a handover the action moves by equal parts; then its change and the action are limited. */
static void apply(MEMORY *m, int status, const double *asked, double *actions)
{
    if (m->acted != status + 1) {
        m->transfer_left = (m->acted == 0) ? 1.0 : TRANSFER;
    }
    for (int i = 0; i < ACTIONS; i++) {
        double value = asked[i];
        if (m->origin_known && (m->transfer_left > 1.0)) {
            const double share = 1.0 / m->transfer_left;
            value = (m->origin[i] * (1.0 - share)) + (value * share);
        }
        if (m->origin_known) {
            value = clipped(value, m->origin[i] - max_change[i], m->origin[i] + max_change[i]);
        }
        actions[i] = clipped(value, low[i], high[i]);
    }
    m->transfer_left = larger(m->transfer_left - 1.0, 0.0);
    remember(m, actions);
    m->acted = status + 1;
    m->waited = (status == LEARNED) ? 0.0 : m->waited + 1.0;
}

void INIT(MEMORY *memory)
{
    const MEMORY nothing = {0};
    *memory = nothing;
}

int STEP(MEMORY *memory, const double measured[MEASURED], const double *applied, const double *fallback,
    double measured_at, double now, double actions[ACTIONS])
{
    bool absent[MEASURED];
    double asked[ACTIONS];
    int status = LEARNED;
    bool fault = clock_fails(memory, measured_at, now);
    for (int i = 0; i < MEASURED; i++) {
        absent[i] = !usable(measured[i], largest[i]);
    }
    fault = sensor_hangs(memory, measured, absent) || fault;
    if (applied != NULL) {
        if (all_finite(applied, ACTIONS)) {
            remember(memory, applied);
        } else {
            fault = true;
            memory->last_known = false;
        }
    }
    next_state(memory, measured, absent);
    if (!policy_acts(memory, fault, asked)) {
        status = choose(memory, fallback, asked);
    }
    if (status != NO_ACTION) {
        apply(memory, status, asked, actions);
    }
    return status;
}
