// crypto_box_seal of libsodium, to seal secrets before they leave: an X25519
// agreement with a fresh key, XSalsa20-Poly1305. Only whoever has the private
// key can open it, not even who sealed it.
//
// Node has X25519; the rest is here, so that nothing has to be installed.
// Values are at most some KiB.
import { createPublicKey, diffieHellman, generateKeyPairSync } from
	'node:crypto';

const M64 = (1n << 64n) - 1n;
const IV = [0x6a09e667f3bcc908n, 0xbb67ae8584caa73bn, 0x3c6ef372fe94f82bn,
	0xa54ff53a5f1d36f1n, 0x510e527fade682d1n, 0x9b05688c2b3e6c1fn,
	0x1f83d9abfb41bd6bn, 0x5be0cd19137e2179n];
const SIGMA = [
	[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
	[14, 10, 4, 8, 9, 15, 13, 6, 1, 12, 0, 2, 11, 7, 5, 3],
	[11, 8, 12, 0, 5, 2, 15, 13, 10, 14, 3, 6, 7, 1, 9, 4],
	[7, 9, 3, 1, 13, 12, 11, 14, 2, 6, 5, 10, 4, 0, 15, 8],
	[9, 0, 5, 7, 2, 4, 10, 15, 14, 1, 11, 12, 6, 8, 3, 13],
	[2, 12, 6, 10, 0, 11, 8, 3, 4, 13, 7, 5, 15, 14, 1, 9],
	[12, 5, 1, 15, 14, 13, 4, 10, 0, 7, 6, 3, 9, 2, 8, 11],
	[13, 11, 7, 14, 12, 1, 3, 9, 5, 0, 15, 4, 8, 6, 2, 10],
	[6, 15, 14, 9, 11, 3, 0, 8, 12, 2, 13, 7, 1, 4, 10, 5],
	[10, 2, 8, 4, 7, 6, 1, 5, 15, 11, 9, 14, 3, 12, 13, 0],
];
const LANES = [[0, 4, 8, 12], [1, 5, 9, 13], [2, 6, 10, 14], [3, 7, 11, 15],
	[0, 5, 10, 15], [1, 6, 11, 12], [2, 7, 8, 13], [3, 4, 9, 14]];

/** @param {bigint} x @param {bigint} n */
function rotate(x, n) {
	return ((x >> n) | (x << (64n - n))) & M64;
}

/**
 * BLAKE2b (RFC 7693) of one block at most, without a key.
 * @param {Uint8Array} data
 * @param {number} size of the digest
 * @returns {any}
 */
export function blake2b(data, size) {
	const block = Buffer.alloc(128);
	block.set(data);
	const m = Array.from({ length: 16 }, (_, i) => block.readBigUInt64LE(8 * i));
	const h = [...IV];
	h[0] ^= 0x01010000n ^ BigInt(size);
	const v = [...h, ...IV];
	v[12] ^= BigInt(data.length);
	v[14] ^= M64; // the last block
	for (let round = 0; round < 12; round++) {
		const s = SIGMA[round % 10];
		LANES.forEach(([a, b, c, d], i) => {
			v[a] = (v[a] + v[b] + m[s[2 * i]]) & M64;
			v[d] = rotate(v[d] ^ v[a], 32n);
			v[c] = (v[c] + v[d]) & M64;
			v[b] = rotate(v[b] ^ v[c], 24n);
			v[a] = (v[a] + v[b] + m[s[2 * i + 1]]) & M64;
			v[d] = rotate(v[d] ^ v[a], 16n);
			v[c] = (v[c] + v[d]) & M64;
			v[b] = rotate(v[b] ^ v[c], 63n);
		});
	}
	const out = Buffer.alloc(64);
	h.forEach((x, i) => out.writeBigUInt64LE(x ^ v[i] ^ v[i + 8], 8 * i));
	return out.subarray(0, size);
}

const LINES = [[0, 4, 8, 12], [5, 9, 13, 1], [10, 14, 2, 6], [15, 3, 7, 11],
	[0, 1, 2, 3], [5, 6, 7, 4], [10, 11, 8, 9], [15, 12, 13, 14]];

/** Twenty rounds of Salsa20. @param {Uint32Array} s @returns {Uint32Array} */
function rounds(s) {
	const x = Uint32Array.from(s);
	/** @type {(to: number, p: number, q: number, r: number) => void} */
	const step = (to, p, q, r) => {
		const v = (x[p] + x[q]) >>> 0;
		x[to] ^= (v << r) | (v >>> (32 - r));
	};
	for (let i = 0; i < 10; i++)
		for (const [a, b, c, d] of LINES) {
			step(b, a, d, 7);
			step(c, b, a, 9);
			step(d, c, b, 13);
			step(a, d, c, 18);
		}
	return x;
}

/** @param {any} bytes @returns {number[]} */
function words(bytes) {
	return Array.from({ length: bytes.length / 4 }, (_, i) =>
		bytes.readUInt32LE(4 * i));
}

/** @param {any} key @param {any} middle @returns {Uint32Array} */
function state(key, middle) {
	const c = words(Buffer.from('expand 32-byte k')), k = words(key);
	return Uint32Array.from([c[0], ...k.slice(0, 4), c[1], ...words(middle),
		c[2], ...k.slice(4), c[3]]);
}

/** @param {ArrayLike<number>} list */
function bytesOf(list) {
	const out = Buffer.alloc(4 * list.length);
	for (let i = 0; i < list.length; i++)
		out.writeUInt32LE(list[i], 4 * i);
	return out;
}

/** @param {any} key @param {any} nonce */
function hsalsa20(key, nonce) {
	const x = rounds(state(key, nonce));
	return bytesOf([0, 5, 10, 15, 6, 7, 8, 9].map((i) => x[i]));
}

/** @param {any} key @param {any} nonce @param {number} n of the stream */
function xsalsa20(key, nonce, n) {
	const inner = hsalsa20(key, nonce.subarray(0, 16));
	const blocks = [];
	for (let i = 0; i < Math.ceil(n / 64); i++) {
		const count = Buffer.alloc(8);
		count.writeUInt32LE(i);
		const s = state(inner, Buffer.concat([nonce.subarray(16), count]));
		const x = rounds(s);
		blocks.push(bytesOf(s.map((a, k) => (a + x[k]) >>> 0)));
	}
	return Buffer.concat(blocks).subarray(0, n);
}

/** @param {any} bytes @returns {bigint} little-endian */
function number(bytes) {
	let n = 0n;
	for (let i = bytes.length - 1; i >= 0; i--)
		n = (n << 8n) | BigInt(bytes[i]);
	return n;
}

/** @param {any} key @param {any} data */
function poly1305(key, data) {
	const r = number(key.subarray(0, 16)) & 0x0ffffffc0ffffffc0ffffffc0fffffffn;
	const p = (1n << 130n) - 5n;
	let acc = 0n;
	for (let i = 0; i < data.length; i += 16) {
		const block = data.subarray(i, i + 16);
		acc = (acc + number(block) + (1n << BigInt(8 * block.length))) * r % p;
	}
	const tag = acc + number(key.subarray(16));
	return Buffer.from(Array.from({ length: 16 }, (_, i) =>
		Number((tag >> BigInt(8 * i)) & 0xffn)));
}

/**
 * @param {Uint8Array} data
 * @param {Uint8Array} publicKey
 * @returns {any} the sealed bytes
 */
export function seal(data, publicKey) {
	if (publicKey.length !== 32)
		throw new TypeError('the key of the project is no key');
	const ours = generateKeyPairSync('x25519');
	const theirs = createPublicKey({ format: 'jwk', key: { kty: 'OKP',
		crv: 'X25519', x: Buffer.from(publicKey).toString('base64url') } });
	const shared = diffieHellman({ privateKey: ours.privateKey,
		publicKey: theirs }); // throws on a key that is none
	const own = Buffer.from(ours.publicKey.export({ format: 'jwk' }).x,
		'base64url');
	const nonce = blake2b(Buffer.concat([own, publicKey]), 24);
	const stream = xsalsa20(hsalsa20(shared, Buffer.alloc(16)), nonce,
		32 + data.length);
	const sealed = Buffer.from(data);
	for (let i = 0; i < sealed.length; i++)
		sealed[i] ^= stream[32 + i];
	return Buffer.concat([own, poly1305(stream.subarray(0, 32), sealed),
		sealed]);
}
