// Names and rules of giveway.v1 that need no state.
export const PROTOCOL = 'giveway.v1';
export const PHASES = ['PREPARING', 'NAVIGATING', 'AUTHENTICATING', 'INPUTTING', 'SUBMITTING', 'WAITING', 'PARSING'];
export const REASON = 'collect_now_preempt'; // of an order that gives none
// Entering the phase passes the safe point; there is no other place to stop.
export const SAFE_POINTS = {
  NAVIGATING: 'before_open', INPUTTING: 'before_input', SUBMITTING: 'before_submit', PARSING: 'before_parse',
};

/** Whether the frame is a newer lease of a task held here: a later attempt, or a fresh token while it waits. */
export const supersedes = (frame, { frame: mine, running }) => frame.attempt_id === mine.attempt_id
  ? !running && frame.lease_token !== mine.lease_token : frame.attempt >= mine.attempt;

/** Sorts the most urgent first. */
export const byUrgency = (a, b) => b.frame.lane_weight - a.frame.lane_weight || b.frame.priority - a.frame.priority
  || a.availableAt - b.availableAt || Date.parse(a.frame.enqueued_at) - Date.parse(b.frame.enqueued_at)
  || Date.parse(a.frame.updated_at) - Date.parse(b.frame.updated_at);

/** Milliseconds before connecting again, the n-th time in a row: spread, so that a thousand clients are no herd. */
export function reconnectDelay(code, failures) {
  const crowded = [4408, 4429, 4430].includes(code); // the hub has said that less would be better
  const spread = crowded ? Math.min(55, 10 * 2 ** failures) : Math.min(10, 5 * 2 ** failures);
  return 1000 * ((crowded ? 5 : 0) + Math.random() * spread);
}
