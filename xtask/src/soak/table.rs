//! Real programs that run for a while: those that generate code as they go.

pub struct Case {
    pub name: &'static str,
    pub program: &'static str,
    /// Prepares the directory that it runs in.
    pub setup: &'static str,
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

/// Ever new classes, each hot enough to be compiled, and unloaded again; two threads run them, one of which is new.
const JAVA: &str = "\
cat >Soak.java <<'END'
import java.lang.invoke.MethodHandles;
import java.util.function.LongUnaryOperator;
public class Soak {
  static class Sum implements LongUnaryOperator {
    public long applyAsLong(long n) { long s = n; for (int i = 0; i < 50; i++) s = s * 31 + i; return s; }
  }
  public static void main(String[] arguments) throws Exception {
    long end = System.nanoTime() + 1_000_000_000L * Long.parseLong(arguments[0]);
    byte[] code = Soak.class.getResourceAsStream(\"Soak$Sum.class\").readAllBytes();
    long expected = new Sum().applyAsLong(7);
    while (System.nanoTime() < end) {
      Class<?> copy = MethodHandles.lookup().defineHiddenClass(code, true).lookupClass();
      LongUnaryOperator sum = (LongUnaryOperator) copy.getDeclaredConstructor().newInstance();
      Thread other = new Thread(() -> { for (int i = 0; i < 3000; i++) sum.applyAsLong(i); });
      other.start();
      for (int i = 0; i < 3000; i++) if (sum.applyAsLong(7) != expected) throw new Error(\"wrong\");
      other.join();
    }
    System.out.println(\"done\");
  }
}
END
";

pub const CASES: &[Case] = &[
    Case {
        name: "node",
        program: "node",
        setup: "",
        args: &["-e", NODE],
    },
    Case {
        name: "python",
        program: "python3",
        setup: "",
        args: &["-c", PYTHON],
    },
    Case {
        name: "java",
        program: "java",
        setup: JAVA,
        args: &["-Xmx64m", "-XX:+UseSerialGC", "Soak.java"],
    },
];
