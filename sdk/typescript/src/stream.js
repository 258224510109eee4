/**
 * To be iterated over with `for await`. Leaving the loop closes it, and so
 * does close().
 * @template T
 */
export class Stream {
	#items;
	#end;

	/**
	 * @param {AsyncGenerator<T, void, void>} items
	 * @param {() => void} end lets go of what is behind them
	 */
	constructor(items, end) {
		this.#items = items;
		this.#end = end;
	}

	/** @returns {Promise<IteratorResult<T, void>>} */
	next() {
		return this.#items.next();
	}

	/** @returns {Promise<IteratorResult<T, void>>} */
	async return() {
		this.close();
		return { done: true, value: undefined };
	}

	close() {
		this.#end();
	}

	[Symbol.asyncIterator]() {
		return this;
	}
}
