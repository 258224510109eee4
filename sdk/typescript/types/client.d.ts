/**
 * @typedef {import('./data.js').Body} Body
 * @typedef {{project?: string}} OfProject
 * @typedef {string | {id: string}} State a sandbox or a snapshot, or its name
 */
/** @param {State | undefined | null} state @returns {any} */
export function idOf(state: State | undefined | null): any;
/** Images that sandboxes start from. */
export class Images extends Part {
    /** @returns {Promise<import('./data.js').Image[]>} */
    list(): Promise<import("./data.js").Image[]>;
    /**
     * One of them, with what it wants of its processes.
     * @param {string} name
     * @returns {Promise<import('./data.js').Image>}
     */
    get(name: string): Promise<import("./data.js").Image>;
    /**
     * Makes an image of a tar: a root file system, an OCI layout or a docker
     * archive.
     * @param {string} name
     * @param {Body} tar
     * @returns {Promise<import('./data.js').Image>}
     */
    put(name: string, tar: Body): Promise<import("./data.js").Image>;
    /**
     * Makes an image of one in a registry that the operator allows.
     * @param {string} name
     * @param {string} reference
     * @param {{platform?: string, username?: string, password?: string}} [o]
     * @returns {Promise<import('./data.js').Image>}
     */
    pull(name: string, reference: string, o?: {
        platform?: string;
        username?: string;
        password?: string;
    }): Promise<import("./data.js").Image>;
    /**
     * An image as a tar, piece by piece.
     * @param {string} name
     * @param {{format?: 'oci' | 'docker' | 'rootfs'}} [o]
     * @returns {AsyncGenerator<Uint8Array, void, void>}
     */
    export(name: string, o?: {
        format?: "oci" | "docker" | "rootfs";
    }): AsyncGenerator<Uint8Array, void, void>;
    /**
     * Makes an image of a sandbox's or a snapshot's disk.
     * @param {string} name
     * @param {State} state
     * @returns {Promise<import('./data.js').Image>}
     */
    save(name: string, state: State): Promise<import("./data.js").Image>;
    /**
     * Removes an image that no sandbox uses.
     * @param {string} name
     * @returns {Promise<void>}
     */
    remove(name: string): Promise<void>;
}
/** Snapshots of all sandboxes, also of those that have ended. */
export class Snapshots extends Part {
    /**
     * The oldest first.
     * @param {{sandbox?: string, name?: string}} [o]
     * @returns {Promise<import('./data.js').Snapshot[]>}
     */
    list(o?: {
        sandbox?: string;
        name?: string;
    }): Promise<import("./data.js").Snapshot[]>;
    /**
     * One of them, by id or name.
     * @param {string} ref
     * @returns {Promise<import('./data.js').Snapshot>}
     */
    get(ref: string): Promise<import("./data.js").Snapshot>;
    /**
     * Removes one; what started from it stays.
     * @param {State} ref
     * @returns {Promise<void>}
     */
    remove(ref: State): Promise<void>;
}
/** What sandboxes may reach. */
export class Policies extends Part {
    /**
     * Makes or changes a policy, as text or JSON: in force at once for all
     * sandboxes that have it.
     * @param {string} name
     * @param {string | object} policy
     * @param {OfProject} [o]
     * @returns {Promise<import('./data.js').Policy>}
     */
    set(name: string, policy: string | object, o?: OfProject): Promise<import("./data.js").Policy>;
    /**
     * A policy, as text and as JSON.
     * @param {string} name
     * @param {OfProject} [o]
     * @returns {Promise<import('./data.js').Policy>}
     */
    get(name: string, o?: OfProject): Promise<import("./data.js").Policy>;
    /**
     * All policies, without what they say.
     * @returns {Promise<import('./data.js').Policy[]>}
     */
    list(): Promise<import("./data.js").Policy[]>;
    /**
     * Removes a policy that no sandbox has.
     * @param {string} name
     * @param {OfProject} [o]
     * @returns {Promise<void>}
     */
    remove(name: string, o?: OfProject): Promise<void>;
    /**
     * What becomes of a request: under all policies of a sandbox, a policy by
     * its name, or a text. Nothing is sent anywhere.
     * @param {string} url
     * @param {{method?: string, sandbox?: State, policy?: string,
     *   text?: string}} o
     * @returns {Promise<import('./data.js').Verdict>}
     */
    test(url: string, o: {
        method?: string;
        sandbox?: State;
        policy?: string;
        text?: string;
    }): Promise<import("./data.js").Verdict>;
}
/** Requests of sandboxes that wait for a person. */
export class Approvals extends Part {
    /** @returns {Promise<import('./data.js').Approval[]>} */
    list(): Promise<import("./data.js").Approval[]>;
    /**
     * Lets it pass; with `duration` ("1h", seconds, "always") all of its host
     * for so long.
     * @param {number | {number: number}} approval
     * @param {{duration?: import('./data.js').Time}} [o]
     */
    approve(approval: number | {
        number: number;
    }, o?: {
        duration?: import("./data.js").Time;
    }): Promise<void>;
    /**
     * Refuses it.
     * @param {number | {number: number}} approval
     */
    deny(approval: number | {
        number: number;
    }): Promise<void>;
    #private;
}
/**
 * @typedef {object} SecretOptions
 * @property {string[]} hosts where it may go
 * @property {string} [kind] header, basic, query, aws, oauth2 or totp
 * @property {string} [env] the variable inside that has the placeholder
 * @property {string} [field] of the head; "Authorization"
 * @property {string} [template] of the field's value; "Bearer {}"
 * @property {string} [user]
 * @property {string[]} [methods]
 * @property {string} [path]
 * @property {string} [region]
 * @property {string} [service]
 * @property {string} [tokenUrl]
 * @property {string} [scope]
 * @property {string} [project]
 */
/** Values that the gate adds to requests, and that no sandbox sees. */
export class Secrets extends Part {
    /**
     * Sets one. It is sealed before it leaves: nobody on the way can read it.
     * @param {string} name
     * @param {string | Uint8Array} value
     * @param {SecretOptions} o
     * @returns {Promise<import('./data.js').Secret>}
     */
    set(name: string, value: string | Uint8Array, o: SecretOptions): Promise<import("./data.js").Secret>;
    /**
     * All secrets, without their values.
     * @returns {Promise<import('./data.js').Secret[]>}
     */
    list(): Promise<import("./data.js").Secret[]>;
    /**
     * Removes one: it leaves no more from now on.
     * @param {string} name
     * @param {OfProject} [o]
     * @returns {Promise<void>}
     */
    remove(name: string, o?: OfProject): Promise<void>;
}
/** Files of a project that outlive its sandboxes. */
export class Drive extends Part {
    /**
     * Writes a new version of a file. With `version` only in place of that
     * one, with `new` only if there is none: else VersionMismatch.
     * @param {string} path
     * @param {Body} data
     * @param {OfProject & {version?: number, new?: boolean}} [o]
     * @returns {Promise<import('./data.js').DriveFile>}
     */
    put(path: string, data: Body, o?: OfProject & {
        version?: number;
        new?: boolean;
    }): Promise<import("./data.js").DriveFile>;
    /**
     * The bytes of a file.
     * @param {string} path
     * @param {OfProject & {version?: number}} [o]
     * @returns {Promise<Uint8Array>}
     */
    get(path: string, o?: OfProject & {
        version?: number;
    }): Promise<Uint8Array>;
    /**
     * Files whose path starts so.
     * @param {string} [prefix]
     * @param {OfProject & {recursive?: boolean}} [o]
     * @returns {Promise<import('./data.js').DriveFile[]>}
     */
    list(prefix?: string, o?: OfProject & {
        recursive?: boolean;
    }): Promise<import("./data.js").DriveFile[]>;
    /**
     * Versions of a file, the newest first.
     * @param {string} path
     * @param {OfProject} [o]
     * @returns {Promise<import('./data.js').DriveFile[]>}
     */
    versions(path: string, o?: OfProject): Promise<import("./data.js").DriveFile[]>;
    /**
     * Removes a file; its versions stay until they are purged.
     * @param {string} path
     * @param {OfProject & {purge?: boolean}} [o]
     * @returns {Promise<void>}
     */
    remove(path: string, o?: OfProject & {
        purge?: boolean;
    }): Promise<void>;
}
/** Disks that sandboxes are launched with: volumes: ['NAME:/PATH']. */
export class Volumes extends Part {
    /**
     * @param {string} name
     * @param {OfProject & {size?: import('./data.js').Size}} [o]
     * @returns {Promise<import('./data.js').Volume>}
     */
    create(name: string, o?: OfProject & {
        size?: import("./data.js").Size;
    }): Promise<import("./data.js").Volume>;
    /** @returns {Promise<import('./data.js').Volume[]>} */
    list(): Promise<import("./data.js").Volume[]>;
    /**
     * One of them, by id or name.
     * @param {string} ref
     * @returns {Promise<import('./data.js').Volume>}
     */
    get(ref: string): Promise<import("./data.js").Volume>;
    /**
     * Removes one that no sandbox has.
     * @param {State} ref
     * @returns {Promise<void>}
     */
    remove(ref: State): Promise<void>;
}
/** Keys for clients on other machines. */
export class Keys extends Part {
    /**
     * A key for read, use, approve, policy or admin; this is the only time it is shown.
     * @param {string} [name]
     * @param {OfProject & {scope?: 'read' | 'use' | 'approve' | 'policy' | 'admin'}} [o]
     * @returns {Promise<import('./data.js').Key>}
     */
    create(name?: string, o?: OfProject & {
        scope?: "read" | "use" | "approve" | "policy" | "admin";
    }): Promise<import("./data.js").Key>;
    /** @returns {Promise<import('./data.js').Key[]>} */
    list(): Promise<import("./data.js").Key[]>;
    /**
     * From now on it opens nothing.
     * @param {State} key
     * @returns {Promise<void>}
     */
    remove(key: State): Promise<void>;
}
/** A daemon. Without options it is the one that CARREL_URL (with
 * CARREL_API_KEY) or CARREL_SOCKET names, or the one of this host. */
export class Client {
    /** @param {import('./link.js').LinkOptions} [options] */
    constructor(options?: import("./link.js").LinkOptions);
    /** @internal */
    link: Link;
    images: Images;
    snapshots: Snapshots;
    policies: Policies;
    approvals: Approvals;
    secrets: Secrets;
    drive: Drive;
    volumes: Volumes;
    keys: Keys;
    /**
     * A command in a sandbox that is made for it, of this spec, and gone when
     * it has ended.
     * @param {import('./data.js').CommandLine} cmd
     * @param {{spec?: import('./data.js').Spec, cwd?: string, user?: string,
     *   env?: Record<string, string>, timeout?: number, input?: string,
     *   maxOutput?: number}} [o]
     * @returns {Promise<import('./data.js').Result>}
     */
    run(cmd: import("./data.js").CommandLine, o?: {
        spec?: import("./data.js").Spec;
        cwd?: string;
        user?: string;
        env?: Record<string, string>;
        timeout?: number;
        input?: string;
        maxOutput?: number;
    }): Promise<import("./data.js").Result>;
    /**
     * The kill switch: ends all sandboxes (of the key's project).
     * @returns {Promise<number>} how many
     */
    killAll(): Promise<number>;
    /**
     * What the host and its sandboxes use now.
     * @returns {Promise<Record<string, any>>}
     */
    stats(): Promise<Record<string, any>>;
    /**
     * What sandboxes have used, and the sums of projects.
     * @param {OfProject & {sandbox?: string, since?: string,
     *   until?: string}} [o]
     * @returns {Promise<Record<string, any>>}
     */
    usage(o?: OfProject & {
        sandbox?: string;
        since?: string;
        until?: string;
    }): Promise<Record<string, any>>;
    /**
     * What the host is and offers.
     * @returns {Promise<Record<string, any>>}
     */
    host(): Promise<Record<string, any>>;
    /**
     * Entries of the log: from now on, or behind `after`. When this is
     * resolved it has begun to listen.
     * @param {EventOptions} [o]
     * @returns {Promise<Stream<import('./data.js').Event>>}
     */
    events(o?: EventOptions): Promise<Stream<import("./data.js").Event>>;
    /** Ends connections that are kept. */
    close(): void;
}
export type Body = import("./data.js").Body;
export type OfProject = {
    project?: string;
};
/**
 * a sandbox or a snapshot, or its name
 */
export type State = string | {
    id: string;
};
export type SecretOptions = {
    /**
     * where it may go
     */
    hosts: string[];
    /**
     * header, basic, query, aws, oauth2 or totp
     */
    kind?: string | undefined;
    /**
     * the variable inside that has the placeholder
     */
    env?: string | undefined;
    /**
     * of the head; "Authorization"
     */
    field?: string | undefined;
    /**
     * of the field's value; "Bearer {}"
     */
    template?: string | undefined;
    user?: string | undefined;
    methods?: string[] | undefined;
    path?: string | undefined;
    region?: string | undefined;
    service?: string | undefined;
    tokenUrl?: string | undefined;
    scope?: string | undefined;
    project?: string | undefined;
};
export type EventOptions = {
    /**
     * behind this entry; 0 is from the start
     */
    after?: number | undefined;
    sandbox?: string | undefined;
    /**
     * the start of their type
     */
    type?: string | undefined;
    /**
     * false: only those that are there
     */
    follow?: boolean | undefined;
    limit?: number | undefined;
};
declare class Part {
    /** @param {Link} link */
    constructor(link: Link);
    /** @protected */
    protected link: Link;
}
import { Link } from './link.js';
import { Stream } from './stream.js';
export {};
