#!/usr/bin/env node
// A desktop client of giveway.v1 in plain Node: 22, or 20 with --experimental-websocket. No dependencies.
// It does everything that docs/protocol asks of a client. The work itself (work.mjs) is not a browser's: it sends the
// question to an OpenAI-compatible endpoint (--answers URL); without one it fails each task with the code no_driver.
//   GIVEWAY_DEVICE_TOKEN=… node client.mjs --ws ws://127.0.0.1:8081/api/desktop/ws --api http://127.0.0.1:8000
import { randomUUID } from 'node:crypto';
import { setTimeout as sleep } from 'node:timers/promises';
import { parseArgs } from 'node:util';
import { Kept } from './kept.mjs';
import { isGone, restCalls } from './rest.mjs';
import { byUrgency, PHASES, PROTOCOL, REASON, reconnectDelay, SAFE_POINTS, supersedes } from './rules.mjs';
import { drive } from './work.mjs';

const text = (value) => ({ type: 'string', default: value });
const { values: options } = parseArgs({ options: {
  ws: text('ws://127.0.0.1:8081/api/desktop/ws'), api: text('http://127.0.0.1:8000'), state: text('.giveway-client'),
  slots: text('2'), answers: text(''), model: text('default'), pace: text('0'), // pace: ms of each phase, at least
} });
const TOKEN = process.env.GIVEWAY_DEVICE_TOKEN ?? '';
const SLOTS = Number(options.slots), HEARTBEAT = 10_000, SILENCE = 30_000, EXTEND_AFTER = 80_000, IDLE_SYNC = 60_000;

const tasks = new Map(); // attempt id → what waits or runs here
const ended = new Set(); // attempts that are over: a late frame must not revive them
const offers = new Map(); // task id → a legacy task that can be pulled
const beats = new Map(); // heartbeat id → the attempts it named and when
let socket = null, said = false, greeted = 0, failures = 0, lastFrame = 0, lastNews = 0; // times in ms, monotonic
let pulling = false, stopping = false;

const log = (event, fields = {}) => console.log(JSON.stringify({ event, ...fields }));
const finish = (code) => { log('stopped', { code }); kept.written().finally(() => process.exit(code)); };
const send = (frame) => socket?.readyState === 1 && socket.send(JSON.stringify({ id: randomUUID(), ...frame }));
const call = restCalls(options.api, TOKEN, log, () => finish(1));
const kept = new Kept(options.state, call, log);
class Over extends Error {} // the attempt has ended: given way, cancelled, lease lost

// --- what the server says: only flags are set here -------------------------------------------------------------------
const isPublish = (task) => task.frame.kind === 'publish'; // has a slot of its own and is never interrupted
const ofTask = (id) => [...tasks.values()].find((task) => task.frame.task_id === id && !task.over);

function offered(frame) {
  kept.see(frame.interrupt_generation);
  if (!frame.lease_token) return void offers.set(frame.task_id, frame);
  const mine = ofTask(frame.task_id), id = frame.attempt_id;
  if (ended.has(id) || kept.has(id) || (mine && !supersedes(frame, mine))) return;
  if (mine && mine.frame.attempt_id !== id) lose(mine, 'replaced');
  const seen = Math.max(frame.interrupt_generation, mine?.seen ?? 0);
  const task = { frame, seen, interrupt: null, canceled: false, running: false, over: null, phase: null, notBefore: 0,
    availableAt: mine?.availableAt ?? performance.now(), leased: performance.now(), times: {} };
  task.abort = new AbortController(); // ends the work at once when the lease is over
  tasks.set(id, task);
  if (stopping) giveBack(task, 'client_stopping');
}
function ordered({ task_id, control, interrupt_generation: generation, reason }) {
  kept.see(generation);
  const task = ofTask(task_id), why = reason ?? REASON;
  if (!task) { // "I do not run it": at the order's generation, without a token; a result that waits settles it itself
    const body = { interrupt_generation: generation, reason: why };
    if (control === 'interrupt_requested' && !kept.waits(task_id)) void call(task_id, 'interrupt-ack', body);
  } else if (generation >= task.seen) { // an older order is stale
    task.seen = generation;
    if (control === 'canceled') task.canceled = true;
    if (control === 'interrupt_withdrawn') task.interrupt = null;
    if (control === 'interrupt_requested' && !isPublish(task)) task.interrupt = { generation, reason: why };
    if (!task.running) stopWaiting(task);
  }
}
function told(task, { interrupt_requested: asked, interrupt_generation: generation }) { // by start and extend
  kept.see(generation);
  task.leased = performance.now();
  if (generation < task.seen || isPublish(task)) return;
  task.seen = generation;
  task.interrupt = asked ? { generation, reason: REASON } : null;
}
function lose(task, why) {
  task.over = why;
  task.abort.abort();
  if (!task.running) forget(task);
}
function giveBack(task, reason) {
  const { task_id, lease_token } = task.frame;
  lose(task, reason);
  return call(task_id, 'cancel', { lease_token, reason, interrupt_generation: task.seen });
}
function stopWaiting(task) { // nothing of it runs: an order is followed at once
  if (task.canceled) lose(task, 'canceled');
  else if (task.interrupt) giveBack(task, task.interrupt.reason);
}
function forget({ frame: { attempt_id: id } }) {
  if (tasks.delete(id)) ended.add(id);
  if (ended.size > 1000) ended.delete(ended.values().next().value);
}

// --- what runs next --------------------------------------------------------------------------------------------------
const busy = (publish) => [...tasks.values()].filter((task) => task.running && isPublish(task) === publish).length;
const freeSlots = (publish) => (publish ? 1 : SLOTS) - busy(publish);
function schedule() {
  const ready = (task) => !task.running && task.notBefore <= performance.now() && freeSlots(isPublish(task)) > 0;
  for (let next; !stopping && (next = [...tasks.values()].filter(ready).sort(byUrgency)[0]);) void run(next);
  if (!stopping && offers.size && !pulling && freeSlots(false) > 0) void pull(freeSlots(false));
}
async function pull(count) {
  pulling = true;
  const asked = [...offers.keys()], { ok, answer } = await call(null, 'lease', { count: Math.min(count, 64) }, 1);
  const all = ok && !answer.remaining, leased = ok ? answer.tasks : [];
  for (const id of all ? asked : leased.map(({ task_id }) => task_id)) offers.delete(id);
  leased.forEach(offered);
  setTimeout(() => { pulling = false; schedule(); }, all ? 0 : 1000); // the rest is asked for again
  schedule();
}

// --- one attempt -----------------------------------------------------------------------------------------------------
async function run(task) {
  const now = performance.now(), { lease_token, task_id } = task.frame;
  Object.assign(task, { running: true, phase: 'PREPARING', since: now, safe: now, longest: 0 });
  try {
    const { ok, code, answer } = await call(task_id, 'start', { lease_token, phase: 'PREPARING' });
    if (!ok && isGone(code)) throw new Over(code);
    if (!ok) return later(task); // no_slot, or nobody answers; the same start again is harmless
    told(task, answer);
    const found = await outcome(task);
    await enter(task, 'POSTING'); // from here on an order is settled by the result itself
    const times = { phase_times: task.times, safe_point_interval_ms: task.longest };
    await kept.add(task_id, { lease_token, attempt_id: task.frame.attempt_id, ...found, ...times });
  } catch (error) { log('ended', { task_id, why: error.message }); }
  if (task.running) { forget(task); for (const other of tasks.values()) other.notBefore = 0; }
  schedule();
}
function later(task) {
  Object.assign(task, { running: false, phase: null, notBefore: performance.now() + 1000 });
  if (task.over) return forget(task);
  stopWaiting(task);
  setTimeout(schedule, 1001);
}
async function outcome(task) {
  try {
    for (const phase of PHASES) { await enter(task, phase); await drive(task, phase, options); }
    return task.answer;
  } catch (error) {
    if (error instanceof Over || task.over) throw new Over(task.over ?? error.message);
    return { outcome: 'failed', error: error.message.slice(0, 500) };
  }
}
async function enter(task, phase) {
  const point = SAFE_POINTS[phase], mayStop = task.frame.owner !== 'legacy' || task.phase === 'PREPARING';
  for (;;) {
    const { interrupt } = task;
    if (task.over || (point && task.canceled)) throw new Over(task.over ?? 'canceled');
    if (!point || !interrupt || !mayStop) break;
    const { generation, reason } = interrupt, { lease_token } = task.frame;
    const body = { lease_token, interrupt_generation: generation, reason, phase: task.phase, safe_point: point,
      safe_point_interval_ms: performance.now() - task.safe, phase_times: task.times };
    const { ok, code } = await call(task.frame.task_id, 'interrupt-ack', body);
    if (ok || isGone(code)) throw new Over(ok ? 'gave_way' : code);
    if (code !== 'stale_generation') break; // no answer: go on, and try again at the next safe point
    if (task.interrupt === interrupt) task.interrupt = null;
    await sleep(300); // the current order is on its way
  }
  const now = performance.now();
  if (point) { task.longest = Math.max(task.longest, now - task.safe); task.safe = now; }
  task.times[task.phase] = (task.times[task.phase] ?? 0) + now - task.since;
  Object.assign(task, { phase, since: now });
}

// --- the socket ------------------------------------------------------------------------------------------------------
const listed = ({ frame: { task_id, attempt_id }, running, phase }) =>
  ({ task_id, attempt_id, phase, state: !running ? 'queued' : phase === 'POSTING' ? 'posting' : 'running' });
function held(running) {
  const found = [...tasks.values()].filter((task) => task.running === running && !task.over).map(listed);
  return running ? [...found, ...kept.listed().filter(({ attempt_id }) => !tasks.has(attempt_id))] : found;
}
const holding = () => ({ highest_generation: kept.highest, held: [...held(true), ...held(false)] });

function connect() {
  const mine = socket = new WebSocket(options.ws, [PROTOCOL]);
  [greeted, lastFrame] = [0, performance.now()];
  // The frame instead of the Authorization header: the standard WebSocket of JavaScript cannot set one.
  mine.onopen = () => { mine.opened = true; send({ type: 'authenticate', id: 'authenticate', token: TOKEN }); };
  mine.onmessage = ({ data }) => { if (mine === socket) received(JSON.parse(data)); };
  // Node 20 tells no close of a connection that never opened.
  mine.onerror = () => { if (mine === socket && !mine.opened) disconnected(1006, 'no connection'); };
  mine.onclose = ({ code, reason }) => { if (mine === socket) disconnected(code, reason); };
}
function received(frame) {
  lastFrame = performance.now();
  if (frame.type === 'ack' && frame.ref === 'authenticate') {
    const self = { protocol: PROTOCOL, version: '1.0', max_concurrent: SLOTS, platform_sessions: {} };
    said = send({ type: 'hello', ...self, ...holding() }) !== false;
  } else if (frame.type === 'ack') {
    for (const [attempt, at] of beats.get(frame.ref) ?? []) if (tasks.has(attempt)) tasks.get(attempt).leased = at;
    beats.delete(frame.ref);
  } else if (frame.type === 'task_available' || frame.type === 'task_control') {
    send({ type: 'ack', ref: frame.id });
    (frame.type === 'task_available' ? offered : ordered)(frame);
  } else if (frame.type === 'snapshot') snapshot(frame);
  else log('ignored', { type: frame.type, code: frame.code }); // also kinds of a newer hub
  if (frame.type !== 'ack') lastNews = performance.now();
  schedule();
}
function snapshot({ held: verdicts = [], available = [], controls = [], last }) {
  for (const { attempt_id, valid } of verdicts) {
    const task = tasks.get(attempt_id);
    if (task && !valid && task.phase !== 'POSTING') lose(task, 'lease_lost'); // a result is judged by its own call
  }
  available.forEach(offered);
  controls.forEach(ordered);
  if (!last || greeted) return;
  greeted = performance.now();
  log('connected');
  heartbeat(); // and every 10 s from now on
}
function heartbeat() {
  const id = randomUUID(), running = held(true), queued = held(false), at = performance.now();
  beats.set(id, [...running, ...queued].map(({ attempt_id }) => [attempt_id, at]));
  if (beats.size > 8) beats.delete(beats.keys().next().value);
  send({ type: 'heartbeat', id, running, queued, healthy: true, platform_sessions: {} });
}
function tick() {
  const now = performance.now(); // heartbeats are answered: a hub that says nothing is gone
  if (socket && now - lastFrame > SILENCE) return disconnected(1006, 'silence');
  if (said) heartbeat(); // also while a snapshot is late: leases run on
  if (greeted && !tasks.size && now - lastNews > IDLE_SYNC) send({ type: 'sync', ...holding() });
  for (const task of tasks.values()) if (!task.over && now - task.leased > EXTEND_AFTER) void extend(task);
}
async function extend(task) { // heartbeats have not done it for too long
  const { ok, code, answer } = await call(task.frame.task_id, 'extend', { lease_token: task.frame.lease_token }, 1);
  if (ok) told(task, answer);
  else if (isGone(code) && !task.over) lose(task, code);
}
function disconnected(code, reason) {
  const left = socket, lasted = greeted ? performance.now() - greeted : 0;
  [socket, said] = [null, false];
  if (left.readyState < 2) left.close();
  if (stopping) return;
  log('disconnected', { code, reason });
  if (code >= 4500 && code < 5000) return finish(1);
  failures = lasted >= 30_000 ? 1 : failures + 1; // a connection that held starts the count anew
  setTimeout(connect, reconnectDelay(code, failures - 1));
}
async function stop() { // finishes what is being posted, gives back the rest
  stopping = true;
  const open = [...tasks.values()].filter((task) => !task.over && task.phase !== 'POSTING');
  await Promise.race([Promise.all(open.map((task) => giveBack(task, 'client_stopping'))), sleep(5000)]);
  for (let n = 0; n < 50 && tasks.size; n++) await sleep(100);
  socket?.close(1000);
  finish(0);
}
for (const signal of ['SIGTERM', 'SIGINT']) process.once(signal, () => void stop());
await kept.load();
connect();
setInterval(tick, HEARTBEAT);
