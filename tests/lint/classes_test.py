#!/usr/bin/env python3
"""classes.py itself: it must be able to fail, and counts as a reader does."""

import unittest

import classes


def counted(text):
    return [(name, methods, fields) for _, _, name, methods, fields, _ in classes.classes_of(text)]


def is_unexplained(text):
    return [
        classes.is_unexplained(kind, methods, fields, comment)
        for _, kind, _, methods, fields, comment in classes.classes_of(text)
    ]


class ClassesTest(unittest.TestCase):
    def test_what_is_counted(self):
        text = """
        // class Comment { void No(); };
        class Outer final : public Base<int(int)>, public Other {
         public:
          explicit Outer(int a) : a_(a), b_{a} {}
          Outer(const Outer&) = delete;
          ~Outer() = default;
          int a() const { return a_; }
          std::map<int, std::function<void(int)>> Map(const std::string& text = "}{;") const;
          bool Put(const Options& options = {}) { return Write(options); }
          absl::Status Wait() ABSL_LOCKS_EXCLUDED(mutex_);
          template <typename T>
          void Each(T&& visit) { for (;;) { visit(); } }
          using Type = int;
          static constexpr int kLimit = 4;
          friend class Friend;
          struct Inner { int x = 0; int y = 0; };

         private:
          int a_, b_{};
          std::map<int, std::string> names_ ABSL_GUARDED_BY(mutex_);
          std::function<void(int)> call_ = [](int) {};
          std::array<int, 3> three_ = {1, 2, 3};
        };"""
        self.assertEqual(counted(text), [("Outer", 6, 5), ("Inner", 0, 2)])

    def test_a_large_class_needs_a_reason(self):
        methods = "class A {\n" + "".join(f"  void F{i}();\n" for i in range(26)) + "};\n"
        fields = "class A {\n" + "".join(f"  int f{i}_ = 0;\n" for i in range(16)) + "};\n"
        for text in (methods, fields):
            with self.subTest(text=text):
                self.assertEqual(is_unexplained(text), [True])
                self.assertEqual(is_unexplained("/// It has more\n/// than 25 methods, because.\n" + text), [False])
                self.assertEqual(is_unexplained("/// It takes more than 8 bytes.\n" + text), [True])
                self.assertEqual(is_unexplained(text.replace("25()", "25() = delete").replace(" f15_", " f14_")),
                                 [text is fields])  # fmt: skip

    def test_a_struct_that_is_data_may_be_large(self):
        fields = "".join(f"  int f{i} = 0;\n" for i in range(16))
        self.assertEqual(is_unexplained("struct A {\n" + fields + "};"), [False])
        self.assertEqual(is_unexplained("struct A {\n" + fields + "void B();void C();void D();void E();};"), [True])


if __name__ == "__main__":
    unittest.main()
