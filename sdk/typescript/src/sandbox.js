import { randomBytes } from 'node:crypto';
import { Client, idOf } from './client.js';
import { Commands, run } from './commands.js';
import { record, specJson, textOf } from './data.js';
import { CarrelError, NotFound, fromAnswer } from './errors.js';
import { Files } from './files.js';
import { lines, segment } from './link.js';
import { openTerminal } from './terminal.js';

/**
 * @typedef {import('./data.js').SandboxInfo} SandboxInfo
 * @typedef {import('./data.js').Spec} Spec
 * @typedef {import('./client.js').State} State
 * @typedef {{client?: Client}} WithClient
 */

/** A machine of its own. With `await using` it is killed at the end of the
 * block. */
export class Sandbox {
	#link;
	#path;

	/**
	 * One that there is; connect() looks whether it is.
	 * @param {Client} client
	 * @param {string} id
	 */
	constructor(client, id) {
		this.client = client;
		this.id = id;
		this.#link = client.link;
		this.#path = `/v1/sandboxes/${segment(id)}`;
		this.commands = new Commands(this.#link, this.#path);
		this.files = new Files(this.#link, this.#path);
	}

	/**
	 * Makes one, of an image or from a snapshot.
	 * @param {Spec & WithClient & {snapshot?: State}} [spec]
	 * @returns {Promise<Sandbox>}
	 */
	static async create(spec = {}) {
		const { client = new Client(), snapshot, ...more } = spec;
		// With a key of its own it may be repeated: it is made once.
		const made = await client.link.post('/v1/sandboxes',
			specJson({ ...more, snapshot: idOf(snapshot) }),
			{ repeat: true, timeout: null, headers: {
				'Idempotency-Key': randomBytes(16).toString('hex') } });
		return new Sandbox(client, made.id);
	}

	/**
	 * One that there is, by id or name.
	 * @param {string} ref
	 * @param {WithClient} [o]
	 * @returns {Promise<Sandbox>}
	 */
	static async connect(ref, { client = new Client() } = {}) {
		const got = await client.link.get(`/v1/sandboxes/${segment(ref)}`);
		return new Sandbox(client, got.id);
	}

	/**
	 * All there are, or those that fit; connect() to one by its id.
	 * @param {WithClient & {label?: string, state?: string, name?: string,
	 *   project?: string}} [o]
	 * @returns {Promise<SandboxInfo[]>}
	 */
	static async list({ client = new Client(), ...query } = {}) {
		const found = [];
		let after;
		do {
			/** @type {any} */
			const j = await client.link.get('/v1/sandboxes',
				{ ...query, after });
			found.push(...j.sandboxes.map(record));
			after = j.next;
		} while (after);
		return found;
	}

	/**
	 * Runs a command to its end: a line for the shell, or a list of words.
	 * With `check` a failure throws CommandError. After `timeout` seconds it
	 * is killed. Callbacks get the output as it comes.
	 * @param {import('./data.js').CommandLine} cmd
	 * @param {import('./commands.js').RunOptions} [o]
	 * @returns {Promise<import('./data.js').Result>}
	 */
	run(cmd, o = {}) {
		return run(this.#link, this.#path, cmd, o);
	}

	/**
	 * A terminal with a shell, or with `command`; with `process` back to one
	 * that was left. Iterate over it for what it shows.
	 * @param {import('./terminal.js').TerminalOptions} [o]
	 * @returns {Promise<import('./terminal.js').Terminal>}
	 */
	terminal(o = {}) {
		return openTerminal(this.#link, this.#path, o);
	}

	/**
	 * What it is now.
	 * @returns {Promise<SandboxInfo>}
	 */
	async info() {
		return record(await this.#link.get(this.#path));
	}

	/**
	 * Ends it: no process is left when this is resolved. No error if it has
	 * ended already.
	 * @returns {Promise<void>}
	 */
	async kill() {
		try {
			await this.#link.ask({ method: 'DELETE', path: this.#path,
				timeout: null });
		} catch (e) {
			if (!(e instanceof NotFound))
				throw e;
		}
	}

	/** @param {string} verb @param {any} [body] */
	async #do(verb, body) {
		return record(await this.#link.post(`${this.#path}/${verb}`, body,
			{ timeout: null }));
	}

	/**
	 * Stops it where it is; the next use wakes it. With diskOnly its
	 * processes end and only the disk stays.
	 * @param {{diskOnly?: boolean}} [o]
	 * @returns {Promise<SandboxInfo>}
	 */
	pause(o = {}) {
		return this.#do('pause', { disk_only: o.diskOnly || undefined });
	}

	/**
	 * Lets it go on.
	 * @returns {Promise<SandboxInfo>}
	 */
	resume() {
		return this.#do('resume');
	}

	/**
	 * Changes what may be changed while it lives: labels, limits, policies. A
	 * label that is null is removed.
	 * @param {Spec} change
	 * @returns {Promise<SandboxInfo>}
	 */
	async update(change) {
		return record(await this.#link.ask({ method: 'PATCH',
			path: this.#path, json: specJson(change) }));
	}

	/**
	 * It ends so many seconds from now (or "5m"); 0 is never.
	 * @param {import('./data.js').Time} timeout
	 */
	setTimeout(timeout) {
		return this.update({ timeout });
	}

	/**
	 * Keeps its disk as it is now; it goes on running.
	 * @param {string} [name]
	 * @returns {Promise<import('./data.js').Snapshot>}
	 */
	snapshot(name) {
		return this.#do('snapshots', { name });
	}

	/**
	 * Those of this sandbox, the oldest first.
	 * @returns {Promise<import('./data.js').Snapshot[]>}
	 */
	snapshots() {
		return this.client.snapshots.list({ sandbox: this.id });
	}

	/**
	 * Back to a snapshot, or to the newest at or before an entry of the log.
	 * Its processes end; its id stays.
	 * @param {State | {event: number}} to
	 * @returns {Promise<SandboxInfo>}
	 */
	rollback(to) {
		return this.#do('rollback', typeof to === 'object' && 'event' in to &&
			!('id' in to) ? { event: to.event }
			: { snapshot: idOf(/** @type {State} */ (to)) });
	}

	/**
	 * The same sandbox as a microVM or a container. Its processes end; its id,
	 * what it is allowed and what is on its disk stay.
	 * @param {'microvm' | 'container'} tier
	 * @returns {Promise<SandboxInfo>}
	 */
	move(tier) {
		return this.#do('move', { tier });
	}

	/**
	 * So many that start where this one is; the rest of the spec is what is
	 * different in them.
	 * @param {number} [count]
	 * @param {Spec} [o]
	 * @returns {Promise<Sandbox[]>}
	 */
	async fork(count = 1, o = {}) {
		const { name, labels, ...more } = o;
		const spec = specJson(more);
		const j = await this.#link.post(`${this.#path}/fork`, { count, name,
			labels, spec: Object.keys(spec).length ? spec : undefined },
		{ timeout: null });
		return j.sandboxes.map((/** @type {any} */ s) =>
			new Sandbox(this.client, s.id));
	}

	/**
	 * How its disk differs from another state (a sandbox, a snapshot, an
	 * image); without one from what it started from.
	 * @param {State | null} [since]
	 * @param {{paths?: string[], content?: boolean}} [o]
	 * @returns {AsyncGenerator<import('./data.js').Change, void, void>}
	 */
	async *diff(since, o = {}) {
		const answer = await this.#link.open({ method: 'GET',
			path: '/v1/diff', timeout: null, query: { to: this.id,
				from: idOf(since), path: o.paths,
				content: o.content || undefined } });
		for await (const j of lines(answer)) {
			if (j.type === 'error')
				throw fromAnswer(j.code ?? 500, j);
			if (j.type === 'done')
				return;
			yield record(j);
		}
		throw new CarrelError('the list of differences was cut off');
	}

	/**
	 * Takes over what another sandbox or snapshot has changed since both
	 * parted. Where both changed something: MergeConflict and nothing is
	 * done, unless prefer is "ours" or "theirs".
	 * @param {State} source
	 * @param {{paths?: string[], prefer?: 'ours' | 'theirs',
	 *   dryRun?: boolean}} [o]
	 * @returns {Promise<import('./data.js').MergeResult>}
	 */
	merge(source, o = {}) {
		return this.#do('merge', { from: idOf(source), paths: o.paths,
			prefer: o.prefer, dry_run: o.dryRun || undefined });
	}

	/**
	 * Its family: images, snapshots and sandboxes that it comes from or that
	 * come from it.
	 * @returns {Promise<import('./data.js').Node[]>}
	 */
	async tree() {
		return (await this.#link.get(`${this.#path}/tree`)).nodes.map(record);
	}

	/**
	 * What it uses now.
	 * @returns {Promise<Record<string, any>>}
	 */
	async stats() {
		return record(await this.#link.get(`${this.#path}/stats`));
	}

	/**
	 * Asks for a place ahead of any request to it. What no rule allows or
	 * denies a person decides; `wait` is for how many seconds to wait for it.
	 * @param {string} url
	 * @param {{method?: string, reason?: string, wait?: number}} [o]
	 * @returns {Promise<import('./data.js').Access>}
	 */
	requestAccess(url, o = {}) {
		return this.#do('approvals', { url, ...o });
	}

	/**
	 * Of its terminals, the oldest first.
	 * @returns {Promise<import('./data.js').Recording[]>}
	 */
	async recordings() {
		const j = await this.#link.get(`${this.#path}/recordings`);
		return j.recordings.map(record);
	}

	/**
	 * What a terminal showed, as an asciicast.
	 * @param {State} recording
	 * @returns {Promise<string>}
	 */
	async recording(recording) {
		return textOf(await this.#link.bytes({ method: 'GET',
			path: `${this.#path}/recordings/${segment(idOf(recording))}` }));
	}

	/**
	 * Copies a file of the sandbox to the drive; with `version` only in place
	 * of that one.
	 * @param {string} path
	 * @param {string} to
	 * @param {{version?: number, user?: string}} [o]
	 * @returns {Promise<import('./data.js').DriveFile>}
	 */
	drivePut(path, to, o = {}) {
		return this.#do('drive', { put: path, to, ...o });
	}

	/**
	 * Copies a file of the drive into the sandbox.
	 * @param {string} path
	 * @param {string} to
	 * @param {{version?: number, mode?: string, parents?: boolean,
	 *   user?: string}} [o]
	 * @returns {Promise<import('./data.js').DriveFile>}
	 */
	driveGet(path, to, o = {}) {
		return this.#do('drive', { get: path, to, parents: true, ...o });
	}

	/**
	 * What opens one port for so many seconds.
	 * @param {number | string} port
	 * @param {{ttl?: number}} [o]
	 * @returns {Promise<import('./data.js').PortToken>}
	 */
	portToken(port, o = {}) {
		return this.#do(`ports/${segment(port)}/token`, { ttl: o.ttl ?? 3600 });
	}

	/**
	 * A link to what is served on this port inside; it works for ttl seconds,
	 * for whoever has it.
	 * @param {number | string} port
	 * @param {{ttl?: number}} [o]
	 * @returns {Promise<string>}
	 */
	async url(port, o = {}) {
		const token = await this.portToken(port, o);
		if (token.url)
			return token.url;
		if (!this.#link.base)
			throw new CarrelError('there is no URL: the daemon listens on its ' +
				'socket only (set `listen` in its configuration); fetch() ' +
				'works without one');
		return `${this.#link.base}${this.#path}/ports/${segment(port)}/` +
			`?carrel_token=${token.token}`;
	}

	/**
	 * Asks the server on this port inside, whatever it answers.
	 * @param {number | string} port
	 * @param {string} [path]
	 * @param {{method?: string, headers?: Record<string, string>,
	 *   body?: import('./data.js').Body}} [o]
	 * @returns {Promise<import('./data.js').HttpAnswer>}
	 */
	async fetch(port, path = '/', o = {}) {
		const inside = path.replace(/^\/+/, '')
			.replace(/[^!-~]/gu, encodeURIComponent);
		const answer = await this.#link.once({ method: o.method ?? 'GET',
			path: `${this.#path}/ports/${segment(port)}/${inside}`,
			headers: o.headers, body: o.body, timeout: null });
		const all = [];
		for await (const piece of answer)
			all.push(piece);
		const body = Buffer.concat(all);
		return { status: answer.statusCode, headers: answer.headers, body,
			text: textOf(body) };
	}

	/**
	 * Entries of the log about it.
	 * @param {import('./client.js').EventOptions} [o]
	 */
	events(o = {}) {
		return this.client.events({ ...o, sandbox: this.id });
	}
}

// Of Node 18.18 and later.
const dispose = /** @type {any} */ (Symbol).asyncDispose;
if (dispose)
	Object.defineProperty(Sandbox.prototype, dispose, {
		/** @this {Sandbox} */
		value() {
			return this.kill();
		},
	});
