export function open() { return { show() {} }; }
