export function newKey(): any;
/** @param {string} key @returns {string} */
export function acceptOf(key: string): string;
/** @param {number} op @param {Uint8Array} data @returns {Uint8Array} */
export function frame(op: number, data: Uint8Array): Uint8Array;
export const TEXT: 1;
export const BINARY: 2;
export const CLOSE: 8;
export const PING: 9;
export const PONG: 10;
/** Feed it what comes; next() gives whole messages. */
export class Frames {
    /** @param {Uint8Array} data */
    feed(data: Uint8Array): void;
    /** @returns {[number, any] | null} */
    next(): [number, any] | null;
    #private;
}
