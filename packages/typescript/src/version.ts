/** The version of this package, which is that of the command and the server. */
export const VERSION = "0.2.0";
