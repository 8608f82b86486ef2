// REST calls of a desktop: a refusal is a value, told apart by its stable `code`.
import { setTimeout as sleep } from 'node:timers/promises';

export const isGone = (code) => code === 'lease_lost' || code === 'not_found';

/** `call(taskId, action, body, tries)` → { ok, status, code, answer }; code `unavailable`: no answer in all tries. */
export function restCalls(api, token, log, unauthorized) {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
  return async function call(taskId, action, body, tries = 6) {
    const url = `${api}/api/desktop/tasks/${taskId ? `${taskId}/` : ''}${action}`;
    for (let n = 0; ; n++) {
      let wait = Math.random() * Math.min(2000, 200 * 2 ** n);
      try {
        const request = { method: 'POST', headers, body: JSON.stringify(body), signal: AbortSignal.timeout(30_000) };
        const response = await fetch(url, request), answer = await response.json().catch(() => ({}));
        const { status, ok } = response, again = status === 429 || status >= 500 || answer.code === 'bad_request';
        log('call', { task_id: taskId, action, status, code: answer.code });
        if (status === 401) unauthorized();
        if (!again) return { ok, status, code: answer.code ?? '', answer };
        wait += 1000 * (Number(response.headers.get('retry-after')) || 0);
      } catch (error) { log('call', { task_id: taskId, action, error: String(error) }); }
      if (n + 1 >= tries) return { ok: false, status: 0, code: 'unavailable', wait };
      await sleep(wait);
    }
  };
}
