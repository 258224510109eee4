// Commands: run to their end, or followed while they run.
import { randomBytes } from 'node:crypto';
import { makeResult, record, resultOf, textOf } from './data.js';
import { CarrelError, CommandError, ConnectionFailed, NotFound, NotReached,
	TimedOut } from './errors.js';
import { lines, segment, sleep } from './link.js';

/**
 * @typedef {import('./data.js').Body} Body
 * @typedef {import('./data.js').CommandLine} CommandLine
 * @typedef {import('./data.js').Output} Output
 * @typedef {import('./data.js').Result} Result
 *
 * @typedef {object} CommandOptions
 * @property {string} [cwd]
 * @property {Record<string, string>} [env]
 * @property {string} [user]
 * @property {(text: string) => unknown} [onStdout]
 * @property {(text: string) => unknown} [onStderr]
 *
 * @typedef {CommandOptions & {check?: boolean, timeout?: number,
 *   input?: string | Uint8Array, maxOutput?: number,
 *   signal?: AbortSignal}} RunOptions
 * @typedef {CommandOptions & {stdin?: boolean, tty?: boolean, rows?: number,
 *   cols?: number, tag?: string, detach?: boolean}} StartOptions
 * @typedef {Pick<CommandOptions, 'onStdout' | 'onStderr'>} Callbacks
 */

const INPUT_MAX = 128 * 1024; // that fits into the JSON of a run
const KEEP = 4 * 1024 * 1024; // of each output, for the result

/** @param {CommandLine} cmd @param {Record<string, any>} more */
function bodyOf(cmd, more) {
	return { ...(typeof cmd === 'string' ? { command: cmd } : { argv: cmd }),
		...more };
}

/**
 * @param {CommandLine} cmd
 * @param {Result} result
 * @returns {Result}
 */
function checked(cmd, result) {
	if (result.ok)
		return result;
	const words = typeof cmd === 'string' ? cmd : cmd.join(' ');
	const how = result.timedOut ? 'did not end in time'
		: result.signal ? `was ended by signal ${result.signal}`
			: `exited with ${result.exitCode}`;
	const tail = result.stderr.trim().split('\n').pop() ?? '';
	throw new CommandError(`'${words.slice(0, 200)}' ${how}` +
		(tail && `: ${tail.slice(0, 300)}`), result);
}

/**
 * As JSON can carry it; undefined: it cannot.
 * @param {string | Uint8Array | undefined} data
 */
function asText(data) {
	if (data === undefined || data.length > INPUT_MAX)
		return undefined;
	try {
		return typeof data === 'string' ? data
			: new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
				.decode(data);
	} catch {
		return undefined;
	}
}

/**
 * @param {import('./link.js').Link} link
 * @param {string} box its path
 * @param {CommandLine} cmd
 * @param {RunOptions} o
 * @returns {Promise<Result>}
 */
export async function run(link, box, cmd, o) {
	const { cwd, env, user } = o;
	const input = asText(o.input);
	let result;
	if (o.onStdout || o.onStderr || (o.input !== undefined &&
	    input === undefined))
		result = await runFollowed(link, box, cmd, o);
	else
		result = resultOf(await link.post(`${box}/run`, bodyOf(cmd, { cwd,
			env, user, input, timeout: o.timeout,
			max_output: o.maxOutput }), { timeout: null,
			signal: o.signal }));
	return o.check ? checked(cmd, result) : result;
}

/** @param {Command} c @param {number} [timeout] */
async function waitOrKill(c, timeout) {
	try {
		return await c.wait({ timeout });
	} catch (e) {
		if (!(e instanceof TimedOut))
			throw e;
		await c.kill();
		return { ...await c.wait(), timedOut: true, ok: false };
	}
}

/**
 * @param {import('./link.js').Link} link
 * @param {string} box
 * @param {CommandLine} cmd
 * @param {RunOptions} o
 */
async function runFollowed(link, box, cmd, o) {
	const c = new Command(link, box, { body: bodyOf(cmd, { cwd: o.cwd,
		env: o.env, user: o.user, stdin: o.input !== undefined || undefined }),
	callbacks: o });
	const stop = () => {
		c.kill().catch(() => {});
	};
	o.signal?.addEventListener('abort', stop);
	try {
		await c.open();
		/** @type {any} */
		let failed;
		// Beside what follows: it may take no more input before somebody
		// takes its output.
		if (o.input !== undefined)
			c.write(o.input, { eof: true }).catch((e) => {
				if (e instanceof NotFound)
					return; // it did not want all of it
				failed = e;
				stop(); // it would wait for the rest for ever
			});
		const result = await waitOrKill(c, o.timeout);
		if (failed)
			throw failed;
		return result;
	} finally {
		o.signal?.removeEventListener('abort', stop);
		c.close();
	}
}

/** @param {string} box @param {number | string} ref number or tag */
function processPath(box, ref) {
	const name = typeof ref === 'number' ? ref : `tag:${ref}`;
	return `${box}/processes/${segment(name)}`;
}

/** The end of an output, so that no output is too much. */
class Tail {
	/** @type {Uint8Array[]} */
	#pieces = [];
	#size = 0;
	dropped = 0;

	/** @param {Uint8Array} piece */
	add(piece) {
		this.#pieces.push(piece);
		this.#size += piece.length;
		while (this.#size - this.#pieces[0].length >= KEEP) {
			const gone = /** @type {Uint8Array} */ (this.#pieces.shift());
			this.#size -= gone.length;
			this.dropped += gone.length;
		}
	}

	/** @returns {Uint8Array} */
	get data() {
		return Buffer.concat(this.#pieces);
	}
}

/**
 * A command that was started: iterate over it for its output, or wait() for
 * its end. When the connection breaks it comes back with the offsets that it
 * has: no byte is missed or seen twice. close() leaves it running.
 */
export class Command {
	#link;
	#box;
	/** @type {any} */
	#body;
	/** @type {number | string} */
	#ref;
	#ownTag = false;
	/** @type {AsyncGenerator<any, void, void> | null} */
	#lines = null;
	/** @type {any} */
	#answer = null;
	/** A line that is asked for and was not waited for to the end.
	 * @type {Promise<IteratorResult<any, void>> | null} */
	#pending = null;
	#offset = { stdout: 0, stderr: 0 };
	#kept = { stdout: new Tail(), stderr: new Tail() };
	/** @type {Callbacks} */
	#callbacks;
	/** @type {any} */
	#exit = null;
	#lost = 0;

	/** Names it in its sandbox. */
	number = 0;
	/** As the sandbox sees it. */
	pid = 0;
	/** @type {string | null} */
	tag = null;

	/**
	 * @param {import('./link.js').Link} link
	 * @param {string} box
	 * @param {{body?: any, ref?: number | string, callbacks?: Callbacks}} o
	 * @internal
	 */
	constructor(link, box, o) {
		this.#link = link;
		this.#box = box;
		this.#body = o.body;
		this.#ref = o.ref ?? 0;
		this.#callbacks = o.callbacks ?? {};
	}

	get #path() {
		return processPath(this.#box, this.number || this.#ref);
	}

	/** @internal @returns {Promise<void>} */
	async open() {
		if (!this.#body)
			return this.#attach();
		const body = { ...this.#body };
		if (!body.tag) {
			body.tag = this.#ref = 'sdk-' + randomBytes(12).toString('hex');
			this.#ownTag = true;
		}
		try {
			await this.#start(body);
		} catch (e) {
			if (!(e instanceof ConnectionFailed) || e instanceof NotReached ||
			    !this.#ownTag)
				throw e;
			await this.#startAgain(body);
		}
	}

	/** @param {any} body */
	async #start(body) {
		if (body.detach) {
			this.#started(await this.#link.post(`${this.#box}/processes`,
				body));
			return;
		}
		await this.#begin(await this.#link.open({ method: 'POST',
			path: `${this.#box}/processes`, query: { stream: true },
			json: body }));
	}

	/**
	 * It may have been started: then it has our tag.
	 * @param {any} body
	 */
	async #startAgain(body) {
		try {
			await this.#attach();
		} catch (e) {
			if (!(e instanceof NotFound))
				throw e;
			await this.#start(body);
		}
	}

	async #attach() {
		await this.#begin(await this.#link.open({ method: 'GET',
			path: this.#path, query: this.#offset }));
	}

	/** @param {any} answer */
	async #begin(answer) {
		const events = lines(answer);
		const first = await events.next();
		if (first.done || first.value.type !== 'started') {
			answer.destroy();
			throw new ConnectionFailed('the connection broke at the start');
		}
		this.#started(first.value);
		this.#lines = events;
		this.#answer = answer;
	}

	/** @param {any} j */
	#started(j) {
		this.number = j.number;
		this.pid = j.pid;
		this.tag = this.#ownTag ? null : j.tag ?? null;
	}

	/** @param {number | undefined} until */
	async #event(until) {
		const delays = this.#link.delays();
		for (;;) {
			try {
				if (!this.#lines)
					await this.#attach();
				const got = await before(until, this.#ask());
				this.#pending = null;
				if (!got.done)
					return got.value;
			} catch (e) {
				if (e instanceof Late)
					throw new TimedOut('it still runs');
				// Not even a ping came in time: the connection is dead.
				if (!(e instanceof ConnectionFailed || e instanceof TimedOut) ||
				    !delays.length) {
					this.close();
					throw e;
				}
			}
			this.close();
			const wait = delays.shift();
			if (wait === undefined)
				throw new ConnectionFailed('the output ends again and again');
			await sleep(wait);
		}
	}

	/** @returns {Promise<IteratorResult<any, void>>} */
	#ask() {
		if (!this.#pending) {
			this.#pending = /** @type {any} */ (this.#lines).next();
			// Whoever gave up waiting need not hear of its end.
			this.#pending?.catch(() => {});
		}
		return /** @type {any} */ (this.#pending);
	}

	/**
	 * The next piece of output; null when it has exited.
	 * @param {number} [until]
	 * @returns {Promise<Output | null>}
	 */
	async #next(until) {
		while (!this.#exit) {
			const e = await this.#event(until);
			if (e.type === 'output')
				return this.#output(e);
			if (e.type === 'gap') {
				this.#lost += e.lost;
				this.#offset[/** @type {'stdout'} */ (e.stream)] = e.offset;
			} else if (e.type === 'exit') {
				this.#exit = e.exit;
				this.close();
			} else if (e.type === 'error') {
				this.close();
				throw new CarrelError(e.message ?? 'the command was lost', e);
			}
		}
		return null;
	}

	/** @param {any} e @returns {Promise<Output>} */
	async #output(e) {
		const stream = /** @type {'stdout' | 'stderr'} */ (e.stream);
		const data = 'data' in e ? Buffer.from(e.data)
			: Buffer.from(e.base64, 'base64');
		const text = textOf(data);
		this.#offset[stream] = e.offset + data.length;
		this.#kept[stream].add(data);
		await (stream === 'stdout' ? this.#callbacks.onStdout
			: this.#callbacks.onStderr)?.(text);
		return { stream, data, text };
	}

	/** @returns {AsyncGenerator<Output, void, void>} */
	async *[Symbol.asyncIterator]() {
		for (let out; (out = await this.#next());)
			yield out;
	}

	/**
	 * Waits for its end; TimedOut if it still runs after so many seconds.
	 * @param {{timeout?: number, check?: boolean}} [o]
	 * @returns {Promise<Result>}
	 */
	async wait(o = {}) {
		const until = o.timeout === undefined ? undefined
			: Date.now() + o.timeout * 1000;
		while (await this.#next(until))
			;
		const { stdout, stderr } = this.#kept;
		const result = makeResult(stdout.data, stderr.data, this.#exit, false,
			this.#lost + stdout.dropped + stderr.dropped);
		return o.check ? checked(`process ${this.number}`, result) : result;
	}

	/**
	 * Bytes for its standard input; with eof none follow.
	 * @param {Body} data
	 * @param {{eof?: boolean}} [o]
	 * @returns {Promise<void>}
	 */
	async write(data, o = {}) {
		await this.#link.ask({ method: 'POST', path: `${this.#path}/input`,
			query: { eof: o.eof || undefined }, body: data, timeout: null,
			headers: { 'Content-Type': 'application/octet-stream' } });
	}

	/** No more input. */
	closeStdin() {
		return this.write('', { eof: true });
	}

	/**
	 * Sends a signal; no error if it has exited.
	 * @param {number | string} [signal]
	 */
	kill(signal = 'KILL') {
		return sendSignal(this.#link, this.#box, this.number || this.#ref,
			signal);
	}

	/**
	 * Another size for its terminal.
	 * @param {number} rows
	 * @param {number} cols
	 * @returns {Promise<void>}
	 */
	async resize(rows, cols) {
		await this.#link.post(`${this.#path}/resize`, { rows, cols });
	}

	/** Leaves; the command runs on. */
	close() {
		this.#answer?.destroy();
		this.#answer = this.#lines = this.#pending = null;
	}
}

class Late extends Error {}

/**
 * @template T
 * @param {number | undefined} until
 * @param {Promise<T>} promise
 * @returns {Promise<T>}
 */
export function before(until, promise) {
	if (until === undefined)
		return promise;
	/** @type {any} */
	let timer;
	const late = new Promise((_, reject) => {
		timer = setTimeout(() => reject(new Late()),
			Math.max(0, until - Date.now()));
	});
	return /** @type {Promise<T>} */ (Promise.race([promise, late])
		.finally(() => clearTimeout(timer)));
}

/** @param {unknown} e */
export function isLate(e) {
	return e instanceof Late;
}

/**
 * @param {import('./link.js').Link} link
 * @param {string} box
 * @param {number | string} ref
 * @param {number | string} signal
 */
async function sendSignal(link, box, ref, signal) {
	try {
		await link.post(`${processPath(box, ref)}/signal`, { signal });
	} catch (e) {
		if (!(e instanceof NotFound))
			throw e;
		await link.get(box); // the sandbox must be there
	}
}

export class Commands {
	#link;
	#box;

	/** @param {import('./link.js').Link} link @param {string} box */
	constructor(link, box) {
		this.#link = link;
		this.#box = box;
	}

	/**
	 * Starts a command and goes on. Iterate over it for its output, or wait()
	 * for its end; callbacks are called while one of the two is done. A `tag`
	 * is a name to find it by. A command that writes much waits until it is
	 * read, unless it is `detach`ed: then the oldest output is dropped.
	 * @param {CommandLine} cmd
	 * @param {StartOptions} [o]
	 * @returns {Promise<Command>}
	 */
	async start(cmd, o = {}) {
		const { onStdout, onStderr, ...more } = o;
		const c = new Command(this.#link, this.#box,
			{ body: bodyOf(cmd, more), callbacks: { onStdout, onStderr } });
		await c.open();
		return c;
	}

	/**
	 * A command that was started before, by its number or tag; its output
	 * from the oldest that was kept.
	 * @param {number | string} ref
	 * @param {Callbacks} [o]
	 * @returns {Promise<Command>}
	 */
	async attach(ref, o = {}) {
		const c = new Command(this.#link, this.#box, { ref, callbacks: o });
		await c.open();
		return c;
	}

	/**
	 * Those that run, and those that exited lately.
	 * @returns {Promise<import('./data.js').ProcessInfo[]>}
	 */
	async list() {
		const j = await this.#link.get(`${this.#box}/processes`);
		return j.processes.map(record);
	}

	/**
	 * Sends a signal to a process, by number or tag, and its group. No error
	 * if it has exited already.
	 * @param {number | string} ref
	 * @param {number | string} [signal]
	 */
	kill(ref, signal = 'KILL') {
		return sendSignal(this.#link, this.#box, ref, signal);
	}
}
