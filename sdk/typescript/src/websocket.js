// WebSocket frames: the client's end.
import { createHash, randomBytes } from 'node:crypto';
import { ProtocolError } from './errors.js';

export const TEXT = 1, BINARY = 2, CLOSE = 8, PING = 9, PONG = 10;
const MESSAGE_MAX = 16 * 1024 * 1024;

export function newKey() {
	return randomBytes(16).toString('base64');
}

/** @param {string} key @returns {string} */
export function acceptOf(key) {
	return createHash('sha1')
		.update(key + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64');
}

/** @param {number} op @param {Uint8Array} data @returns {Uint8Array} */
export function frame(op, data) {
	const n = data.length;
	const at = n < 126 ? 2 : n < 65536 ? 4 : 10;
	const out = Buffer.alloc(at + 4 + n);
	const mask = randomBytes(4);
	out[0] = 0x80 | op;
	if (at === 2) {
		out[1] = 0x80 | n;
	} else if (at === 4) {
		out[1] = 0x80 | 126;
		out.writeUInt16BE(n, 2);
	} else {
		out[1] = 0x80 | 127;
		out.writeBigUInt64BE(BigInt(n), 2);
	}
	mask.copy(out, at);
	for (let i = 0; i < n; i++)
		out[at + 4 + i] = data[i] ^ mask[i & 3];
	return out;
}

/** Feed it what comes; next() gives whole messages. */
export class Frames {
	/** @type {any} */
	#buf = Buffer.alloc(0);
	#op = 0;
	/** @type {Uint8Array[]} */
	#parts = [];
	#size = 0;

	/** @param {Uint8Array} data */
	feed(data) {
		this.#buf = this.#buf.length ? Buffer.concat([this.#buf, data])
			: Buffer.from(data);
	}

	/** @returns {[number, any] | null} */
	next() {
		for (;;) {
			const got = this.#frame();
			if (!got)
				return null;
			const { fin, op, data } = got;
			if (op >= CLOSE)
				return [op, data];
			if ((op === 0) !== (this.#op !== 0))
				throw new ProtocolError('a message inside another');
			this.#op ||= op;
			this.#parts.push(data);
			this.#size += data.length;
			if (this.#size > MESSAGE_MAX)
				throw new ProtocolError('a message is too large');
			if (fin)
				return this.#whole();
		}
	}

	/** @returns {[number, any]} */
	#whole() {
		const op = this.#op, data = Buffer.concat(this.#parts);
		this.#op = this.#size = 0;
		this.#parts = [];
		return [op, data];
	}

	#frame() {
		const b = this.#buf;
		if (b.length < 2)
			return null;
		if (b[0] & 0x70 || b[1] & 0x80)
			throw new ProtocolError('a frame that no server sends');
		let n = b[1] & 127, at = 2;
		if (n >= 126)
			at = n === 126 ? 4 : 10;
		if (b.length < at)
			return null;
		if (at === 4)
			n = b.readUInt16BE(2);
		else if (at === 10)
			n = Number(b.readBigUInt64BE(2));
		if (n > MESSAGE_MAX)
			throw new ProtocolError('a message is too large');
		if (b.length < at + n)
			return null;
		this.#buf = b.subarray(at + n);
		return { fin: Boolean(b[0] & 0x80), op: b[0] & 15,
			data: b.subarray(at, at + n) };
	}
}
