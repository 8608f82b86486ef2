// The work itself. A real client drives a page here; this one sends the question to an OpenAI-compatible endpoint.
import { setTimeout as sleep } from 'node:timers/promises';

/** One phase of `task`; nothing is sent before SUBMITTING. Sets `task.answer`; an error's message is a stable code. */
export async function drive(task, phase, { answers, model, pace }) {
  const { signal } = task.abort;
  if (Number(pace)) await sleep(Number(pace), undefined, { signal });
  if (phase === 'SUBMITTING') {
    if (!answers) throw new Error('no_driver');
    const body = JSON.stringify({ model, messages: [{ role: 'user', content: task.frame.question }] });
    task.reply = fetch(answers, { method: 'POST', headers: { 'content-type': 'application/json' }, body, signal });
    task.reply.catch(() => {}); // it is awaited in the next phase
  } else if (phase === 'WAITING') {
    const reply = await task.reply, raw = await reply.text(); // the body exactly as received
    const content_type = reply.headers.get('content-type')?.slice(0, 100);
    const outcome = reply.ok ? { outcome: 'succeeded' } : { outcome: 'failed', error: `http_${reply.status}` };
    task.answer = { ...outcome, raw, content_type };
  }
}
