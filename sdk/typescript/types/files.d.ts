/**
 * @typedef {import('./data.js').Body} Body
 * @typedef {import('./data.js').Entry} Entry
 * @typedef {{user?: string}} AsUser
 */
/** Files of a sandbox. Paths are absolute, or relative to the user's home. */
export class Files {
    /** @param {import('./link.js').Link} link @param {string} box its path */
    constructor(link: import("./link.js").Link, box: string);
    /**
     * The content of a text file.
     * @param {string} path
     * @param {AsUser} [o]
     * @returns {Promise<string>}
     */
    read(path: string, o?: AsUser): Promise<string>;
    /**
     * The content of a file, or its bytes from `start` up to `end`.
     * @param {string} path
     * @param {AsUser & {start?: number, end?: number}} [o]
     * @returns {Promise<Uint8Array>}
     */
    readBytes(path: string, o?: AsUser & {
        start?: number;
        end?: number;
    }): Promise<Uint8Array>;
    /**
     * The content of a file, piece by piece.
     * @param {string} path
     * @param {AsUser} [o]
     * @returns {AsyncGenerator<Uint8Array, void, void>}
     */
    stream(path: string, o?: AsUser): AsyncGenerator<Uint8Array, void, void>;
    /**
     * Makes a file of text, bytes or an iterable of bytes: all at once or not
     * at all. Missing directories are made.
     * @param {string} path
     * @param {Body} data
     * @param {AsUser & {mode?: string, parents?: boolean}} [o]
     * @returns {Promise<import('./data.js').Written>}
     */
    write(path: string, data: Body, o?: AsUser & {
        mode?: string;
        parents?: boolean;
    }): Promise<import("./data.js").Written>;
    /**
     * What is in a directory, and so many levels below.
     * @param {string} [path]
     * @param {AsUser & {depth?: number}} [o]
     * @returns {Promise<Entry[]>}
     */
    list(path?: string, o?: AsUser & {
        depth?: number;
    }): Promise<Entry[]>;
    /**
     * What a path is; of a link, with `follow`, what it leads to.
     * @param {string} path
     * @param {AsUser & {follow?: boolean}} [o]
     * @returns {Promise<Entry>}
     */
    stat(path: string, o?: AsUser & {
        follow?: boolean;
    }): Promise<Entry>;
    /**
     * Is there anything of this name?
     * @param {string} path
     * @param {AsUser} [o]
     * @returns {Promise<boolean>}
     */
    exists(path: string, o?: AsUser): Promise<boolean>;
    /**
     * Makes a directory and those above it; without `parents` it must not be
     * there yet.
     * @param {string} path
     * @param {AsUser & {parents?: boolean, mode?: string}} [o]
     * @returns {Promise<Entry>}
     */
    mkdir(path: string, o?: AsUser & {
        parents?: boolean;
        mode?: string;
    }): Promise<Entry>;
    /**
     * Gives it another name.
     * @param {string} path
     * @param {string} to
     * @param {AsUser & {overwrite?: boolean, parents?: boolean}} [o]
     * @returns {Promise<Entry>}
     */
    move(path: string, to: string, o?: AsUser & {
        overwrite?: boolean;
        parents?: boolean;
    }): Promise<Entry>;
    /**
     * Copies a file, or with `recursive` a directory.
     * @param {string} path
     * @param {string} to
     * @param {AsUser & {recursive?: boolean, overwrite?: boolean,
     *   parents?: boolean}} [o]
     * @returns {Promise<Entry>}
     */
    copy(path: string, to: string, o?: AsUser & {
        recursive?: boolean;
        overwrite?: boolean;
        parents?: boolean;
    }): Promise<Entry>;
    /**
     * Removes it; a directory with all that is in it only if `recursive`.
     * @param {string} path
     * @param {AsUser & {recursive?: boolean}} [o]
     * @returns {Promise<void>}
     */
    remove(path: string, o?: AsUser & {
        recursive?: boolean;
    }): Promise<void>;
    /**
     * Gives it another mode, as in "0644".
     * @param {string} path
     * @param {string} mode
     * @param {AsUser & {recursive?: boolean}} [o]
     * @returns {Promise<Entry>}
     */
    chmod(path: string, mode: string, o?: AsUser & {
        recursive?: boolean;
    }): Promise<Entry>;
    /**
     * Changes as they happen. When this is resolved it has begun to look;
     * leaving the loop ends it.
     * @param {string} path
     * @param {AsUser & {recursive?: boolean}} [o]
     * @returns {Promise<Stream<import('./data.js').FileEvent>>}
     */
    watch(path: string, o?: AsUser & {
        recursive?: boolean;
    }): Promise<Stream<import("./data.js").FileEvent>>;
    /**
     * Unpacks a tar into a directory.
     * @param {string} path
     * @param {Body} data
     * @param {AsUser & {parents?: boolean}} [o]
     * @returns {Promise<import('./data.js').Unpacked>}
     */
    uploadTar(path: string, data: Body, o?: AsUser & {
        parents?: boolean;
    }): Promise<import("./data.js").Unpacked>;
    /**
     * A directory as a tar, piece by piece.
     * @param {string} path
     * @param {AsUser} [o]
     * @returns {AsyncGenerator<Uint8Array, void, void>}
     */
    downloadTar(path: string, o?: AsUser): AsyncGenerator<Uint8Array, void, void>;
    #private;
}
export type Body = import("./data.js").Body;
export type Entry = import("./data.js").Entry;
export type AsUser = {
    user?: string;
};
import { Stream } from './stream.js';
