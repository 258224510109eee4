// Requests and answers: where the daemon is, connections that are kept, what
// may be repeated.
import * as fs from 'node:fs';
import * as http from 'node:http';
import * as https from 'node:https';
import { Readable } from 'node:stream';
import { CarrelError, ConnectionFailed, NotReached, ProtocolError, TimedOut,
	Unavailable, fromAnswer } from './errors.js';

const DEFAULT_SOCKET = '/run/carrel/api.sock';
const USER_AGENT = 'carrel-node/0.1.0';
const LINE_MAX = 16 * 1024 * 1024;
const IDLE_MS = 10000; // of kept connections: well below what the daemon waits

/**
 * @typedef {object} LinkOptions
 * @property {string} [url] of a daemon that listens; else CARREL_URL
 * @property {string} [apiKey] else CARREL_API_KEY
 * @property {string} [socket] else CARREL_SOCKET, or the one of this host
 * @property {string} [ca] a file with the authority of its certificate
 * @property {number} [timeout] seconds that an answer may take
 * @property {number} [retries] of what is safe to repeat
 *
 * @typedef {object} Ask
 * @property {string} method
 * @property {string} path
 * @property {Record<string, any>} [query]
 * @property {any} [json]
 * @property {import('./data.js').Body} [body]
 * @property {Record<string, string>} [headers]
 * @property {number | null} [timeout] null: as long as it takes
 * @property {boolean} [repeat] if it is not what the method says
 * @property {AbortSignal} [signal]
 * @property {boolean} [upgrade]
 */

/** @param {number} ms @returns {Promise<void>} */
export function sleep(ms) {
	return new Promise((done) => setTimeout(done, ms));
}

/**
 * A name or id as a part of a path.
 * @param {string | number} word
 */
export function segment(word) {
	const text = String(word);
	if (!text || text === '.' || text === '..')
		throw new TypeError(`'${text}' is no name or id`);
	return encodeURIComponent(text);
}

/** @param {string} path @param {Record<string, any>} [query] */
function target(path, query = {}) {
	/** @type {[string, string][]} */
	const pairs = [];
	for (const [name, value] of Object.entries(query))
		for (const v of Array.isArray(value) ? value : [value])
			if (v !== undefined && v !== null)
				pairs.push([name, String(v)]);
	return path + (pairs.length ? '?' + new URLSearchParams(pairs) : '');
}

/** What all requests of a client share. */
export class Link {
	/** @param {LinkOptions} [o] */
	constructor(o = {}) {
		const url = o.url ?? (o.socket ? undefined : process.env.CARREL_URL);
		/** @type {string | undefined} */
		this.apiKey = o.apiKey ?? process.env.CARREL_API_KEY;
		this.timeout = o.timeout ?? 60;
		this.retries = o.retries ?? 3;
		/** The start of URLs; null where there are none.
		 * @type {string | null} */
		this.base = null;
		/** @type {Record<string, any>} */
		this.to = {};
		/** @type {any} */
		this.module = http;
		if (url)
			this.#host(url, o.ca ?? process.env.CARREL_CA);
		else
			this.to = { host: 'localhost', socketPath: o.socket ??
				process.env.CARREL_SOCKET ?? DEFAULT_SOCKET };
		this.at = this.base ?? this.to.socketPath;
		/** @type {any} */
		this.agent = new this.module.Agent({ keepAlive: true,
			timeout: IDLE_MS, ...this.to });
	}

	/** @param {string} text @param {string | undefined} ca */
	#host(text, ca) {
		const u = new URL(text);
		const tls = u.protocol === 'https:';
		if ((!tls && u.protocol !== 'http:') || u.pathname !== '/')
			throw new TypeError(`'${text}' is not http://HOST or https://HOST`);
		this.base = text.replace(/\/+$/, '');
		this.module = tls ? https : http;
		this.to = {
			host: u.hostname.replace(/^\[|\]$/g, ''),
			port: u.port || (tls ? 443 : 80),
			...(ca ? { ca: fs.readFileSync(ca) } : {}),
		};
	}

	close() {
		this.agent.destroy();
	}

	/** Before each repeat: longer each time, and never the same for two. */
	delays() {
		return Array.from({ length: this.retries }, (_, n) =>
			100 * 3 ** n * (0.7 + 0.6 * Math.random()));
	}

	/**
	 * One try: the answer with its body unread, whatever it is.
	 * @param {Ask} ask
	 * @returns {Promise<any>} an IncomingMessage; of an upgrade [it, socket,
	 * head]
	 */
	once(ask) {
		const body = ask.json !== undefined ? JSON.stringify(ask.json)
			: ask.body;
		const whole = typeof body === 'string' ? Buffer.from(body)
			: body instanceof Uint8Array ? body : undefined;
		/** @type {Record<string, any>} */
		const headers = { 'User-Agent': USER_AGENT };
		if (this.apiKey)
			headers.Authorization = `Bearer ${this.apiKey}`;
		if (ask.json !== undefined)
			headers['Content-Type'] = 'application/json';
		if (whole)
			headers['Content-Length'] = whole.length;
		else if (!body && ask.method !== 'GET')
			headers['Content-Length'] = 0;
		Object.assign(headers, ask.headers);
		return new Promise((resolve, reject) => {
			const req = this.module.request({ ...this.to, method: ask.method,
				path: target(ask.path, ask.query), headers,
				agent: ask.upgrade ? false : this.agent, signal: ask.signal });
			const seconds = ask.timeout === undefined ? this.timeout
				: ask.timeout;
			if (seconds !== null)
				req.setTimeout(seconds * 1000, () => req.destroy(
					new TimedOut(`nothing came in ${seconds} s`)));
			req.on('response', (/** @type {any} */ answer) => {
				answer.on('error', () => {}); // whoever reads it hears it
				resolve(answer);
			});
			req.on('upgrade', (/** @type {any[]} */ ...got) => resolve(got));
			req.on('error', (/** @type {any} */ e) => reject(this.#why(e)));
			if (whole || !body)
				req.end(whole);
			else
				this.#pour(body, req, reject);
		});
	}

	/** @param {any} body @param {any} req @param {(e: any) => void} reject */
	#pour(body, req, reject) {
		const from = Readable.from(body, { objectMode: true });
		from.on('error', (/** @type {any} */ e) => {
			reject(e);
			req.destroy();
		});
		req.on('close', () => from.destroy());
		from.pipe(req);
	}

	/** @param {any} e @returns {any} */
	#why(e) {
		if (e instanceof CarrelError || e.name === 'AbortError')
			return e;
		if (e.syscall === 'connect' || e.code === 'ENOTFOUND' ||
		    /CERT|SIGNED|TLS|SSL/.test(e.code ?? ''))
			return new NotReached(`nobody answers at ${this.at} ` +
				`(${e.code ?? e.message}): is the daemon running?`);
		return new ConnectionFailed(`the connection broke: ${e.message}`);
	}

	/**
	 * An answer of success, its body unread.
	 * @param {Ask} ask
	 * @returns {Promise<any>}
	 */
	async open(ask) {
		const delays = ask.repeat ?? ask.method === 'GET' ? this.delays() : [];
		for (;;) {
			let why;
			try {
				const got = await this.once(ask);
				const status = Array.isArray(got) ? 101 : got.statusCode;
				if (status === 101 || (status >= 200 && status < 300))
					return got;
				why = await refusal(got);
			} catch (e) {
				if (!(e instanceof ConnectionFailed))
					throw e;
				why = e;
			}
			const wait = delays.shift();
			if (wait === undefined || !(why instanceof ConnectionFailed ||
			    why instanceof Unavailable))
				throw why;
			await sleep(wait);
		}
	}

	/**
	 * All bytes of an answer.
	 * @param {Ask} ask
	 * @returns {Promise<Uint8Array>}
	 */
	async bytes(ask) {
		return readAll(await this.open(ask));
	}

	/**
	 * The JSON of an answer; null when it has none.
	 * @param {Ask} ask
	 * @returns {Promise<any>}
	 */
	async ask(ask) {
		const delays = ask.repeat ?? ask.method === 'GET' ? this.delays() : [];
		for (;;)
			try {
				return parse(await this.bytes(ask));
			} catch (e) {
				// Its head was there, and then it broke.
				const wait = delays.shift();
				if (wait === undefined || !(e instanceof ConnectionFailed) ||
				    e instanceof NotReached)
					throw e;
				await sleep(wait);
			}
	}

	/**
	 * @param {string} path
	 * @param {Record<string, any>} [query]
	 */
	get(path, query) {
		return this.ask({ method: 'GET', path, query });
	}

	/**
	 * @param {string} path
	 * @param {any} [json] members that are undefined are left out
	 * @param {Partial<Ask>} [more]
	 */
	post(path, json = {}, more = {}) {
		return this.ask({ method: 'POST', path, json, ...more });
	}
}

/** @param {Uint8Array} bytes */
function parse(bytes) {
	if (!bytes.length)
		return null;
	try {
		return JSON.parse(Buffer.from(bytes).toString());
	} catch {
		throw new ProtocolError('the answer is not JSON');
	}
}

/** @param {any} answer @returns {Promise<CarrelError>} */
async function refusal(answer) {
	let body;
	try {
		body = parse(await readAll(answer));
	} catch {
		body = null;
	}
	return fromAnswer(answer.statusCode, body);
}

/**
 * The body, piece by piece. Whoever stops in between closes the connection.
 * @param {any} answer
 * @returns {AsyncGenerator<Uint8Array, void, void>}
 */
export async function* pieces(answer) {
	try {
		for await (const piece of answer)
			yield piece;
	} catch (/** @type {any} */ e) {
		if (e instanceof CarrelError || e.name === 'AbortError')
			throw e;
		throw new ConnectionFailed(`the connection broke: ${e.message}`);
	} finally {
		answer.destroy();
	}
	if (!answer.complete)
		throw new ConnectionFailed('the answer was cut off');
}

/** @param {any} answer @returns {Promise<Uint8Array>} */
async function readAll(answer) {
	const all = [];
	// Not with pieces(): that would close a connection that can be kept.
	try {
		for await (const piece of answer)
			all.push(piece);
	} catch (/** @type {any} */ e) {
		if (e instanceof CarrelError || e.name === 'AbortError')
			throw e;
		throw new ConnectionFailed(`the connection broke: ${e.message}`);
	}
	if (!answer.complete)
		throw new ConnectionFailed('the answer was cut off');
	return Buffer.concat(all);
}

/**
 * JSON, a line each; pings are left out.
 * @param {any} answer
 * @returns {AsyncGenerator<any, void, void>}
 */
export async function* lines(answer) {
	const decoder = new TextDecoder();
	let rest = '';
	for await (const piece of pieces(answer)) {
		const all = (rest + decoder.decode(piece, { stream: true })).split('\n');
		rest = all.pop() ?? '';
		if (rest.length > LINE_MAX)
			throw new ProtocolError('a line of the answer has no end');
		for (const line of all) {
			const event = line ? parse(Buffer.from(line)) : { type: 'ping' };
			if (event.type !== 'ping')
				yield event;
		}
	}
}
