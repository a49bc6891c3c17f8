/**
 * The symbols of `using` and `await using`, for runtimes that have the syntax compiled away and not the symbols. Their types are named by the
 * files that use them, for programs of an older `lib`.
 */

const symbols = Symbol as { dispose?: symbol; asyncDispose?: symbol }
symbols.dispose ??= Symbol.for('Symbol.dispose')
symbols.asyncDispose ??= Symbol.for('Symbol.asyncDispose')

export {}
