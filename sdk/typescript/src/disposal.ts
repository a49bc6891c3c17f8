/** The symbols of `using` and `await using`, for runtimes that have the syntax compiled away and not the symbols. */

const symbols = Symbol as { dispose?: symbol; asyncDispose?: symbol }
symbols.dispose ??= Symbol.for('Symbol.dispose')
symbols.asyncDispose ??= Symbol.for('Symbol.asyncDispose')

export {}
