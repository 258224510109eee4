/* What is used of Node, so that types can be checked with nothing installed. */
declare module 'node:http' {
	export function request(options: object): any;
	export class Agent {
		constructor(options: object);
		destroy(): void;
	}
}
declare module 'node:https' {
	export function request(options: object): any;
	export class Agent {
		constructor(options: object);
		destroy(): void;
	}
}
declare module 'node:stream' {
	export class Readable {
		static from(source: any, options?: object): any;
	}
}
declare module 'node:fs' {
	export function readFileSync(path: string): Uint8Array;
}
declare module 'node:crypto' {
	export function randomBytes(n: number): any;
	export function createHash(name: string): any;
	export function generateKeyPairSync(kind: string): any;
	export function createPublicKey(options: object): any;
	export function diffieHellman(options: object): any;
}
declare const process: { env: Record<string, string | undefined> };
declare const Buffer: any;
declare class URL {
	constructor(text: string);
	protocol: string;
	hostname: string;
	port: string;
	pathname: string;
}
declare class URLSearchParams {
	constructor(pairs: [string, string][]);
	toString(): string;
}
declare class TextDecoder {
	constructor(label?: string, options?: object);
	decode(data?: Uint8Array, options?: object): string;
}
declare class TextEncoder {
	encode(text: string): Uint8Array;
}
declare function setTimeout(fn: () => void, ms: number): any;
declare function clearTimeout(timer: any): void;
interface AbortSignal {
	addEventListener(name: string, fn: () => void): void;
	removeEventListener(name: string, fn: () => void): void;
}
