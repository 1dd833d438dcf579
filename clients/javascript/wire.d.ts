// Made by scripts/javascript.py from the types of the protocol. Do not edit.

export const PROTOCOL_VERSION: string;
export const ROUTES: Record<string, { method: string; path: string }>;
