{% set columns, saved, NAME = guard.controller.columns, guard.controller.saved, name | upper %}
/* Controller {{ name }}, written by nopg {{ version }}.
 *
{% if saved.sha256 %}
 *   the saved controller has the SHA-256 {{ saved.sha256 }}
{% endif %}
{% for column in columns.measured %}
 *   measured[{{ loop.index0 }}] = {{ plain(column ~ units.get(column, "")) }}
{% endfor %}
{% for column in columns.actions %}
{% set low, high = guard.low[loop.index0], guard.high[loop.index0] %}
 *   actions[{{ loop.index0 }}] = {{ plain(column ~ units.get(column, "")) }}, {{ "%.6g to %.6g" | format(low, high) }}
{% endfor %}
 *   the policy acts at an unknown share of at most {{ "%.6g" | format(guard.rules.most_unknown) }}
 */
#ifndef {{ NAME }}_H
#define {{ NAME }}_H

#include <stdbool.h>

#define {{ NAME }}_MEASURED {{ columns.measured | length }}
#define {{ NAME }}_STATES {{ columns.states | length }}
#define {{ NAME }}_ACTIONS {{ columns.actions | length }}

/* Who acts: the policy, the fallback, the last resort where the fallback fails, or nobody before there is an
 * action to hold (the actions are left as they were). */
#define {{ NAME }}_LEARNED 0
#define {{ NAME }}_FALLBACK 1
#define {{ NAME }}_LAST_RESORT 2
#define {{ NAME }}_NO_ACTION 3

/* The memory, all zero before the first step; unknown is the unknown share of the last step. */
typedef struct {
    double unknown;
    double state[{{ NAME }}_STATES], age[{{ NAME }}_MEASURED], last[{{ NAME }}_ACTIONS], origin[{{ NAME }}_ACTIONS];
    double last_measured[{{ NAME }}_MEASURED], repeats[{{ NAME }}_MEASURED];
    double last_time, waited, transfer_left;
    bool state_known, last_known, origin_known, last_time_known;
    bool seen[{{ NAME }}_MEASURED], measured_known[{{ NAME }}_MEASURED];
    int acted;
} {{ name }}_memory;

/* Clear the memory before a run. */
void {{ name }}_init({{ name }}_memory *memory);

/* Compute one action, and return who acts.
 *
 * measured:    NaN where a value is missing.
 * applied:     the actions that the plant received since the last step; NULL if they are those returned.
 * fallback:    what a trusted controller would do now; NULL if there is none.
 * measured_at: the time in seconds on any clock; NaN if there is none.
 * now:         the present time on the same clock; NaN if there is none.
 */
int {{ name }}_step({{ name }}_memory *memory, const double measured[{{ NAME }}_MEASURED], const double *applied,
    const double *fallback, double measured_at, double now, double actions[{{ NAME }}_ACTIONS]);

#endif
