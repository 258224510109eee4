/**
 * To be iterated over with `for await`. Leaving the loop closes it, and so
 * does close().
 * @template T
 */
export class Stream<T> {
    /**
     * @param {AsyncGenerator<T, void, void>} items
     * @param {() => void} end lets go of what is behind them
     */
    constructor(items: AsyncGenerator<T, void, void>, end: () => void);
    /** @returns {Promise<IteratorResult<T, void>>} */
    next(): Promise<IteratorResult<T, void>>;
    /** @returns {Promise<IteratorResult<T, void>>} */
    return(): Promise<IteratorResult<T, void>>;
    close(): void;
    [Symbol.asyncIterator](): this;
    #private;
}
