/**
 * BLAKE2b (RFC 7693) of one block at most, without a key.
 * @param {Uint8Array} data
 * @param {number} size of the digest
 * @returns {any}
 */
export function blake2b(data: Uint8Array, size: number): any;
/**
 * @param {Uint8Array} data
 * @param {Uint8Array} publicKey
 * @returns {any} the sealed bytes
 */
export function seal(data: Uint8Array, publicKey: Uint8Array): any;
