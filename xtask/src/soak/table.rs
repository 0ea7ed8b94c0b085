//! Real programs that run for a while: those that generate code as they go.

pub struct Case {
    pub name: &'static str,
    pub program: &'static str,
    /// The seconds follow.
    pub args: &'static [&'static str],
}

/// Ever new functions, each hot enough to be compiled, and dropped again.
const NODE: &str = "\
const end = Date.now() + 1000 * Number(process.argv[1]);\
let round = 0;\
while (Date.now() < end) {\
  const f = new Function('n', `let s = ${round % 1000}; for (let i = 0; i < n; i++) s = (s * 31 + i) | 0; return s;`);\
  let expected = round % 1000;\
  for (let i = 0; i < 50; i++) expected = (expected * 31 + i) | 0;\
  for (let i = 0; i < 200; i++) if (f(50) !== expected) throw new Error('wrong');\
  round++;\
}\
console.log('done');";

/// Callbacks from C, threads, and ever new byte code.
const PYTHON: &str = "
import sys, time, ctypes, threading
end = time.monotonic() + int(sys.argv[1])
Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)
n = 0
while time.monotonic() < end:
    add = Callback(lambda x, n=n: x + n)
    assert add(3) == n + 3
    thread = threading.Thread(target=lambda: add(1))
    thread.start()
    thread.join()
    exec(compile('def scale(x): return x * %d' % n, 'scale', 'exec'))
    assert scale(2) == 2 * n
    n = (n + 1) % 1000
print('done')
";

pub const CASES: &[Case] = &[
    Case {
        name: "node",
        program: "node",
        args: &["-e", NODE],
    },
    Case {
        name: "python",
        program: "python3",
        args: &["-c", PYTHON],
    },
];
