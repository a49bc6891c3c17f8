/** Of this package, for the server's log. */
export const VERSION = '0.1.0'
