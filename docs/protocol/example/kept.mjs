// What outlives the process: the highest generation seen, and results until the server has taken or refused them.
import { mkdir, open, readdir, readFile, rename, rm } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { isGone } from './rest.mjs';

const MAX_BODY = 1_000_000; // of 1,048,576 bytes
const failed = ({ lease_token, attempt_id, phase_times }, error) =>
  ({ lease_token, attempt_id, phase_times, outcome: 'failed', error });

export class Kept {
  highest = 0;
  #results = new Map(); // attempt id → { task_id, body }
  #writing = Promise.resolve();

  constructor(folder, call, log) { Object.assign(this, { folder, call, log }); }

  async load() {
    await mkdir(join(this.folder, 'results'), { recursive: true, mode: 0o700 });
    this.highest = JSON.parse(await readFile(join(this.folder, 'highest.json'), 'utf8').catch(() => '0'));
    for (const name of await readdir(join(this.folder, 'results'))) {
      if (!name.endsWith('.json')) continue; // a draft that a crash has left
      const text = await readFile(join(this.folder, 'results', name), 'utf8');
      this.#results.set(name.slice(0, -5), JSON.parse(text));
    }
    for (const attempt of this.#results.keys()) void this.#post(attempt, 0);
  }

  see(generation) {
    if (generation <= this.highest) return;
    this.highest = generation;
    this.#writing = this.#writing.then(() => this.#save('highest.json', this.highest));
  }

  /** Keep the result and try once to post it; what is left is tried again, and after a restart. */
  async add(task_id, found) {
    const small = Buffer.byteLength(JSON.stringify(found)) <= MAX_BODY;
    const body = small ? found : failed(found, 'result_too_large');
    this.#results.set(body.attempt_id, { task_id, body });
    await this.#store(body.attempt_id);
    const again = await this.#try(body.attempt_id, 0);
    if (again !== null) void this.#post(body.attempt_id, again);
  }
  has(attempt) { return this.#results.has(attempt); }
  waits(taskId) { return [...this.#results.values()].some(({ task_id }) => task_id === taskId); }
  /** As hello and heartbeats list them; few enough for a frame of 64 KB. */
  listed() {
    const first = [...this.#results].slice(0, 200);
    return first.map(([attempt_id, { task_id }]) => ({ task_id, attempt_id, phase: 'POSTING', state: 'posting' }));
  }
  written() { return this.#writing; }

  async #post(attempt, wait) {
    for (let n = 1; wait !== null; n++) { await sleep(wait); wait = await this.#try(attempt, n); }
  }
  /** Milliseconds until the next try; null: the server has taken it or refused it for good. */
  async #try(attempt, n) {
    const kept = this.#results.get(attempt);
    const { ok, status, code, wait } = await this.call(kept.task_id, 'result', kept.body, 1);
    if (code === 'unavailable') return wait + Math.random() * Math.min(30_000, 500 * 2 ** n);
    if (status === 401) return null; // it stays on disk: the desktop may be registered again
    if (ok || isGone(code) || kept.body.outcome === 'failed') return this.#discard(attempt);
    // Refused as such: a failure instead, so that the task does not run out in silence.
    kept.body = failed(kept.body, status === 413 ? 'result_too_large' : 'result_rejected');
    await this.#store(attempt);
    return this.#try(attempt, n);
  }
  #store(attempt) { return this.#save(`results/${attempt}.json`, this.#results.get(attempt)); }
  async #discard(attempt) {
    this.#results.delete(attempt);
    await rm(join(this.folder, 'results', `${attempt}.json`), { force: true });
    return null;
  }
  async #save(name, value) { // whole or not at all
    const path = join(this.folder, name);
    try {
      const file = await open(`${path}.new`, 'w', 0o600);
      try { await file.writeFile(JSON.stringify(value)); await file.sync(); } finally { await file.close(); }
      await rename(`${path}.new`, path);
    } catch (error) { this.log('disk', { error: String(error) }); }
  }
}
