"""check_layers.py finds what it is there for: each case is a small tree with one fault."""
import os
import subprocess
import sys
import tempfile
import unittest

SCRIPT = os.path.join(os.path.dirname(__file__), "..", "..", "tools", "check_layers.py")
ROWS = "base:\nnum: base\nir: base num/dtype.h\nfront/a: base ir\nfront/b: base ir\ncli: tilesim\n"
SOUND = {
    "tools/layers.txt": ROWS,
    "src/base/x.h": "#include <stddef.h>\n",
    "src/num/dtype.h": "",
    "src/num/num_priv.h": "",
    "src/num/num.c": '#include "num_priv.h"\n#include "num/num_priv.h"\n#include "base/x.h"\n',
    "src/ir/ir.h": '#include "num/dtype.h"\n',
    "src/front/a/a.h": '#include "ir/ir.h"\n',
    "src/cli/main.c": '#include "tilesim/tilesim.h"\n#include <tilesim/num.h>\n#include <zlib.h>\n',
    "include/tilesim/tilesim.h": '#include "tilesim/num.h"\n#include <stdint.h>\n',
    "tests/unit/test_num_a.c": '#include "num/num_priv.h"\n#include "ir/ir.h"\n#include "support/x.h"\n',
    "bench/bench_num_a.c": '#include "num/num_priv.h"\n#include "ir/ir.h"\n',
    "examples/e.c": "#include <tilesim/tilesim.h>\n",
}


def check(extra):
    with tempfile.TemporaryDirectory() as root:
        for path, text in {**SOUND, **extra}.items():
            os.makedirs(os.path.dirname(os.path.join(root, path)), exist_ok=True)
            with open(os.path.join(root, path), "w", encoding="utf-8") as out:
                out.write(text)
        done = subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr


class CheckLayers(unittest.TestCase):
    def assert_found(self, path, text, message):
        code, output = check({path: text})
        self.assertEqual(code, 1, output)
        self.assertIn(message, output)

    def test_sound_tree(self):
        self.assertEqual(check({}), (0, ""))

    def test_upward_edge(self):
        self.assert_found("src/base/y.c", '\n#include "num/dtype.h"\n',
                          "src/base/y.c:2: base must not include num/dtype.h")

    def test_single_header_is_not_the_folder(self):
        self.assert_found("src/ir/y.c", '#include "num/num.h"\n', "ir must not include num/num.h")

    def test_header_from_table_file(self):
        self.assert_found("src/base/y.def", '#include "ir/ir.h"\n', "base must not include ir/ir.h")

    def test_front_ends_are_strangers(self):
        self.assert_found("src/front/b/b.c", '#include "front/a/a.h"\n',
                          "front/b must not include front/a/a.h")

    def test_private_header(self):
        self.assert_found("src/ir/y.c", '#include "num/num_priv.h"\n', "private to num")
        self.assert_found("tests/unit/test_ir_a.c", '#include "num/num_priv.h"\n', "private to num")
        self.assert_found("bench/bench_ir_a.c", '#include "num/num_priv.h"\n', "private to num")

    def test_cli_sees_no_internals(self):
        self.assert_found("src/cli/y.c", '#include "base/x.h"\n', "cli must not include base/x.h")

    def test_way_around_by_dots(self):
        self.assert_found("src/cli/y.c", '#include "../base/x.h"\n', '"../base/x.h" belongs to no')

    def test_public_header_stays_public(self):
        self.assert_found("include/tilesim/y.h", '#include "base/x.h"\n', "must not include base/x.h")

    def test_example_uses_the_api_only(self):
        self.assert_found("examples/y.c", '#include "base/x.h"\n', "must not include base/x.h")

    def test_module_must_not_use_the_api(self):
        self.assert_found("src/num/y.c", '#include "tilesim/tilesim.h"\n',
                          "num must not include tilesim/tilesim.h")

    def test_folder_without_row(self):
        self.assert_found("src/stray/y.c", "", "src/stray/y.c:1: folder has no row")

    def test_malformed_rows(self):
        self.assert_found("tools/layers.txt", "base\n", "layers.txt:1: expected")
        self.assert_found("tools/layers.txt", "base: nowhere\n", "unknown entry nowhere")


if __name__ == "__main__":
    unittest.main()
