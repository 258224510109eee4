// A terminal over a WebSocket.
import { before, isLate } from './commands.js';
import { CarrelError, ConnectionFailed, ProtocolError, TimedOut } from
	'./errors.js';
import * as ws from './websocket.js';

/**
 * @typedef {object} TerminalOptions
 * @property {string} [command] a line for the shell; else a login shell
 * @property {number} [rows]
 * @property {number} [cols]
 * @property {string} [cwd]
 * @property {string} [user]
 * @property {string} [tag]
 * @property {boolean} [record] keep what it shows, as an asciicast
 * @property {number} [process] back to one that was left
 */

const PIECE = 64 * 1024;
const HELD_MAX = 1024 * 1024; // then the other end waits

/** A terminal: iterate over it for what it shows. close() leaves its process
 * running, and terminal({process}) comes back to it. */
export class Terminal {
	#socket;
	#frames = new ws.Frames();
	/** @type {Uint8Array[]} */
	#shown = [];
	#held = 0;
	#over = false;
	/** @type {Error | null} */
	#why = null;
	/** @type {any} */
	#exit = null;
	/** @type {(() => void)[]} */
	#waiting = [];

	/** Of its process. */
	number = 0;
	pid = 0;
	/** Bytes that were not kept. */
	lost = 0;

	/** @param {any} socket @param {Uint8Array} head @internal */
	constructor(socket, head) {
		this.#socket = socket;
		socket.on('data', (/** @type {Uint8Array} */ data) => this.#feed(data));
		socket.on('error', () => {});
		socket.on('close', () => this.#end(new ConnectionFailed(
			"the terminal's connection broke")));
		this.#feed(head);
	}

	/** null while it runs. @returns {number | null} */
	get exitCode() {
		return this.#exit ? this.#exit.code ?? 128 + this.#exit.signal : null;
	}

	/** @param {Uint8Array} data */
	#feed(data) {
		try {
			this.#frames.feed(data);
			for (let got; !this.#over && (got = this.#frames.next());)
				this.#message(got[0], got[1]);
		} catch (e) {
			this.#end(/** @type {Error} */ (e));
			this.#socket.destroy();
		}
		this.#wake();
	}

	/** @param {number} op @param {any} data */
	#message(op, data) {
		if (op === ws.BINARY)
			this.#show(data);
		else if (op === ws.PING)
			this.#socket.write(ws.frame(ws.PONG, data));
		else if (op === ws.TEXT)
			this.#say(JSON.parse(data.toString()));
		else if (op === ws.CLOSE)
			this.close();
	}

	/** @param {Uint8Array} data */
	#show(data) {
		this.#shown.push(data);
		this.#held += data.length;
		if (this.#held > HELD_MAX)
			this.#socket.pause();
	}

	/** @param {any} j */
	#say(j) {
		if (j.started) {
			this.number = j.started.number;
			this.pid = j.started.pid;
		} else if (j.gap) {
			this.lost += j.gap.lost;
		} else if (j.exit) {
			this.#exit = j.exit;
		} else if (j.error) {
			this.#end(new CarrelError(j.error.message ?? 'the terminal ended',
				j.error));
		}
	}

	/** @param {Error | null} why */
	#end(why) {
		if (this.#over)
			return;
		this.#over = true;
		this.#why = why;
		this.#wake();
	}

	#wake() {
		for (const go of this.#waiting.splice(0))
			go();
	}

	/** @internal @returns {Promise<void>} */
	async started() {
		while (!this.number) {
			if (this.#over)
				throw this.#why ?? new ProtocolError('no process was named');
			await new Promise((done) =>
				this.#waiting.push(/** @type {() => void} */ (done)));
		}
	}

	/** @param {number | undefined} until @returns {Promise<Uint8Array | null>} */
	async #next(until) {
		for (;;) {
			const piece = this.#shown.shift();
			if (piece) {
				this.#held -= piece.length;
				this.#socket.resume();
				return piece;
			}
			if (this.#over && this.#why)
				throw this.#why;
			if (this.#over)
				return null;
			try {
				await before(until, new Promise((done) =>
					this.#waiting.push(/** @type {() => void} */ (done))));
			} catch (e) {
				throw isLate(e) ? new TimedOut('nothing was shown in time') : e;
			}
		}
	}

	/**
	 * What it shows next, nothing when its process has exited; TimedOut if
	 * nothing comes in so many seconds.
	 * @param {{timeout?: number}} [o]
	 * @returns {Promise<Uint8Array>}
	 */
	async read(o = {}) {
		return await this.#next(deadline(o.timeout)) ?? Buffer.alloc(0);
	}

	/**
	 * What it shows up to and with this text.
	 * @param {string | Uint8Array} text
	 * @param {{timeout?: number}} [o]
	 * @returns {Promise<string>}
	 */
	async readUntil(text, o = {}) {
		const until = deadline(o.timeout ?? 30);
		let seen = Buffer.alloc(0);
		while (!seen.includes(text)) {
			const piece = await this.#next(until);
			if (!piece)
				throw new CarrelError('the terminal ended before this was shown');
			seen = Buffer.concat([seen, piece]);
		}
		return seen.toString();
	}

	/**
	 * What it shows until its process exits.
	 * @param {{timeout?: number}} [o]
	 * @returns {Promise<string>}
	 */
	async readAll(o = {}) {
		const until = deadline(o.timeout), all = [];
		for (let piece; (piece = await this.#next(until));)
			all.push(piece);
		return Buffer.concat(all).toString();
	}

	/** @returns {AsyncGenerator<Uint8Array, void, void>} */
	async *[Symbol.asyncIterator]() {
		for (let piece; (piece = await this.#next(undefined));)
			yield piece;
	}

	/** @param {number} op @param {Uint8Array} data @returns {Promise<void>} */
	#send(op, data) {
		return new Promise((resolve, reject) => {
			if (this.#over)
				reject(this.#why ?? new ConnectionFailed('it is closed'));
			this.#socket.write(ws.frame(op, data), (/** @type {any} */ e) =>
				e ? reject(new ConnectionFailed(e.message)) : resolve());
		});
	}

	/**
	 * Types it.
	 * @param {string | Uint8Array} data
	 */
	async write(data) {
		const raw = Buffer.from(data);
		for (let at = 0; at < raw.length; at += PIECE)
			await this.#send(ws.BINARY, raw.subarray(at, at + PIECE));
	}

	/**
	 * Another size for it.
	 * @param {number} rows
	 * @param {number} cols
	 */
	resize(rows, cols) {
		return this.#send(ws.TEXT, Buffer.from(JSON.stringify(
			{ resize: { rows, cols } })));
	}

	/**
	 * A signal for its process ("INT", or a number).
	 * @param {number | string} signal
	 */
	signal(signal) {
		return this.#send(ws.TEXT, Buffer.from(JSON.stringify({ signal })));
	}

	/** Leaves; its process runs on. */
	close() {
		this.#end(null);
		this.#socket.destroy();
	}
}

/** @param {number | undefined} seconds */
function deadline(seconds) {
	return seconds === undefined ? undefined : Date.now() + seconds * 1000;
}

/**
 * @param {import('./link.js').Link} link
 * @param {string} box
 * @param {TerminalOptions} o
 * @returns {Promise<Terminal>}
 */
export async function openTerminal(link, box, o) {
	const key = ws.newKey();
	const got = await link.open({ method: 'GET', path: `${box}/terminal`,
		query: { rows: 24, cols: 80, ...o, record: o.record || undefined },
		upgrade: true, repeat: false, // each one starts a process
		headers: { Connection: 'Upgrade', Upgrade: 'websocket',
			'Sec-WebSocket-Version': '13', 'Sec-WebSocket-Key': key } });
	if (!Array.isArray(got) ||
	    got[0].headers['sec-websocket-accept'] !== ws.acceptOf(key)) {
		(Array.isArray(got) ? got[1] : got).destroy();
		throw new ProtocolError('no WebSocket is spoken here');
	}
	got[1].setTimeout(0);
	const t = new Terminal(got[1], got[2]);
	await t.started();
	return t;
}
