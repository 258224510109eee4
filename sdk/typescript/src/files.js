import { record } from './data.js';
import { BadRequest, CarrelError, fromAnswer } from './errors.js';
import { lines, pieces } from './link.js';
import { Stream } from './stream.js';

/**
 * @typedef {import('./data.js').Body} Body
 * @typedef {import('./data.js').Entry} Entry
 * @typedef {{user?: string}} AsUser
 */

/** Files of a sandbox. Paths are absolute, or relative to the user's home. */
export class Files {
	#link;
	#at;

	/** @param {import('./link.js').Link} link @param {string} box its path */
	constructor(link, box) {
		this.#link = link;
		this.#box = box;
		this.#at = `${box}/files`;
	}

	/** @type {string} */
	#box;

	/**
	 * @param {string} path
	 * @param {AsUser & {start?: number, end?: number}} o
	 * @returns {import('./link.js').Ask}
	 */
	#content(path, o) {
		/** @type {Record<string, string>} */
		const headers = {};
		if (o.start !== undefined || o.end !== undefined)
			headers.Range = `bytes=${o.start ?? 0}-` +
				(o.end === undefined ? '' : o.end - 1);
		return { method: 'GET', path: `${this.#at}/content`,
			query: { path, user: o.user }, headers };
	}

	/**
	 * The content of a text file.
	 * @param {string} path
	 * @param {AsUser} [o]
	 * @returns {Promise<string>}
	 */
	async read(path, o = {}) {
		const bytes = await this.readBytes(path, o);
		try {
			return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
				.decode(bytes);
		} catch {
			throw new BadRequest(`${path} is no UTF-8 text: use readBytes()`);
		}
	}

	/**
	 * The content of a file, or its bytes from `start` up to `end`.
	 * @param {string} path
	 * @param {AsUser & {start?: number, end?: number}} [o]
	 * @returns {Promise<Uint8Array>}
	 */
	readBytes(path, o = {}) {
		return this.#link.bytes(this.#content(path, o));
	}

	/**
	 * The content of a file, piece by piece.
	 * @param {string} path
	 * @param {AsUser} [o]
	 * @returns {AsyncGenerator<Uint8Array, void, void>}
	 */
	async *stream(path, o = {}) {
		yield* pieces(await this.#link.open(this.#content(path, o)));
	}

	/**
	 * Makes a file of text, bytes or an iterable of bytes: all at once or not
	 * at all. Missing directories are made.
	 * @param {string} path
	 * @param {Body} data
	 * @param {AsUser & {mode?: string, parents?: boolean}} [o]
	 * @returns {Promise<import('./data.js').Written>}
	 */
	async write(path, data, o = {}) {
		return record(await this.#link.ask({ method: 'PUT',
			path: `${this.#at}/content`, timeout: null, body: data,
			query: { path, mode: o.mode, user: o.user,
				parents: (o.parents ?? true) || undefined },
			headers: { 'Content-Type': 'application/octet-stream' } }));
	}

	/**
	 * What is in a directory, and so many levels below.
	 * @param {string} [path]
	 * @param {AsUser & {depth?: number}} [o]
	 * @returns {Promise<Entry[]>}
	 */
	async list(path = '.', o = {}) {
		const found = [];
		/** @type {Record<string, any>} */
		let after = {};
		for (;;) {
			const j = await this.#link.get(`${this.#at}/list`,
				{ path, depth: o.depth ?? 1, user: o.user, ...after });
			found.push(...j.entries.map(record));
			if (j.next_base64)
				after = { after_base64: j.next_base64 };
			else if (j.next)
				after = { after: j.next };
			else
				return found;
		}
	}

	/**
	 * What a path is; of a link, with `follow`, what it leads to.
	 * @param {string} path
	 * @param {AsUser & {follow?: boolean}} [o]
	 * @returns {Promise<Entry>}
	 */
	async stat(path, o = {}) {
		return record(await this.#link.get(`${this.#at}/stat`,
			{ path, follow: o.follow || undefined, user: o.user }));
	}

	/**
	 * Is there anything of this name?
	 * @param {string} path
	 * @param {AsUser} [o]
	 * @returns {Promise<boolean>}
	 */
	async exists(path, o = {}) {
		try {
			await this.stat(path, o);
		} catch (e) {
			if (!(e instanceof CarrelError) ||
			    !['not_found', 'not_a_directory'].includes(e.error ?? ''))
				throw e;
			// The sandbox must be there; then it is the path that is not.
			await this.#link.get(this.#box);
			return false;
		}
		return true;
	}

	/** @param {string} verb @param {Record<string, any>} body */
	async #change(verb, body) {
		const j = await this.#link.post(`${this.#at}/${verb}`,
			Object.fromEntries(Object.entries(body).filter(([, v]) =>
				v !== undefined && v !== false)), { timeout: null });
		return j && record(j);
	}

	/**
	 * Makes a directory and those above it; without `parents` it must not be
	 * there yet.
	 * @param {string} path
	 * @param {AsUser & {parents?: boolean, mode?: string}} [o]
	 * @returns {Promise<Entry>}
	 */
	mkdir(path, o = {}) {
		return this.#change('mkdir', { path, parents: true, ...o });
	}

	/**
	 * Gives it another name.
	 * @param {string} path
	 * @param {string} to
	 * @param {AsUser & {overwrite?: boolean, parents?: boolean}} [o]
	 * @returns {Promise<Entry>}
	 */
	move(path, to, o = {}) {
		return this.#change('move', { path, to, ...o });
	}

	/**
	 * Copies a file, or with `recursive` a directory.
	 * @param {string} path
	 * @param {string} to
	 * @param {AsUser & {recursive?: boolean, overwrite?: boolean,
	 *   parents?: boolean}} [o]
	 * @returns {Promise<Entry>}
	 */
	copy(path, to, o = {}) {
		return this.#change('copy', { path, to, ...o });
	}

	/**
	 * Removes it; a directory with all that is in it only if `recursive`.
	 * @param {string} path
	 * @param {AsUser & {recursive?: boolean}} [o]
	 * @returns {Promise<void>}
	 */
	async remove(path, o = {}) {
		await this.#change('remove', { path, ...o });
	}

	/**
	 * Gives it another mode, as in "0644".
	 * @param {string} path
	 * @param {string} mode
	 * @param {AsUser & {recursive?: boolean}} [o]
	 * @returns {Promise<Entry>}
	 */
	chmod(path, mode, o = {}) {
		return this.#change('chmod', { path, mode, ...o });
	}

	/**
	 * Changes as they happen. When this is resolved it has begun to look;
	 * leaving the loop ends it.
	 * @param {string} path
	 * @param {AsUser & {recursive?: boolean}} [o]
	 * @returns {Promise<Stream<import('./data.js').FileEvent>>}
	 */
	async watch(path, o = {}) {
		const answer = await this.#link.open({ method: 'GET',
			path: `${this.#at}/watch`, query: { path, user: o.user,
				recursive: o.recursive || undefined } });
		const events = watched(lines(answer));
		await events.next(); // "ready"
		return new Stream(events, () => answer.destroy());
	}

	/**
	 * Unpacks a tar into a directory.
	 * @param {string} path
	 * @param {Body} data
	 * @param {AsUser & {parents?: boolean}} [o]
	 * @returns {Promise<import('./data.js').Unpacked>}
	 */
	async uploadTar(path, data, o = {}) {
		return record(await this.#link.ask({ method: 'PUT',
			path: `${this.#at}/tar`, timeout: null, body: data,
			query: { path, user: o.user,
				parents: (o.parents ?? true) || undefined },
			headers: { 'Content-Type': 'application/x-tar' } }));
	}

	/**
	 * A directory as a tar, piece by piece.
	 * @param {string} path
	 * @param {AsUser} [o]
	 * @returns {AsyncGenerator<Uint8Array, void, void>}
	 */
	async *downloadTar(path, o = {}) {
		yield* pieces(await this.#link.open({ method: 'GET',
			path: `${this.#at}/tar`, query: { path, user: o.user } }));
	}
}

/**
 * @param {AsyncGenerator<any, void, void>} events
 * @returns {AsyncGenerator<import('./data.js').FileEvent, void, void>}
 */
async function* watched(events) {
	for await (const e of events) {
		if (e.type === 'error')
			throw fromAnswer(500, e);
		yield record(e);
	}
}
