// Rule 1 and 2 of the fault rules: the library is a guest in somebody's process.
#include <fcntl.h>
#include <fenv.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xmmintrin.h>

#include <catch2/catch.hpp>
#include <clocale>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <locale>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/host/process_state.h"
#include "tests/host/rig.h"
#include "tests/host/workout.h"
#include "tests/support/sanitized.h"

namespace {

std::string pass(const std::string& keys = "{}") {
  const host::Folder folder;
  const std::string out = host::workout(folder.path(), keys);
  // Paths differ from pass to pass.
  std::string text = out;
  for (size_t at = 0; (at = text.find(folder.path(), at)) != std::string::npos;) {
    text.replace(at, folder.path().size(), "FOLDER");
  }
  return text;
}

/// Standard descriptors of the process replaced for the life of the object.
class Redirected {
 public:
  explicit Redirected(int replacement) {
    for (int i = 0; i < 3; ++i) {
      kept_[i] = fcntl(i, F_DUPFD_CLOEXEC, 100);
      if (replacement >= 0) {
        dup2(replacement, i);
      } else {
        close(i);
      }
    }
  }
  ~Redirected() {
    for (int i = 0; i < 3; ++i) {
      dup2(kept_[i], i);
      close(kept_[i]);
    }
  }

 private:
  int kept_[3];
};

/// A C locale with a decimal comma, made of nothing: the compiled LC_NUMERIC of glibc.
void write_comma_locale(const std::string& directory) {
  const uint32_t header[] = {0x20031115u ^ LC_NUMERIC, 6, 32, 34, 36, 40, 44, 48};
  std::string bytes(reinterpret_cast<const char*>(header), sizeof header);
  const uint32_t comma = ',', point = '.';
  bytes += std::string(",\0", 2) + std::string(".\0", 2) + std::string("\3\3\0\0", 4);
  bytes += std::string(reinterpret_cast<const char*>(&comma), 4);
  bytes += std::string(reinterpret_cast<const char*>(&point), 4);
  bytes += std::string("UTF-8\0", 6);
  std::ofstream(directory + "/LC_NUMERIC", std::ios::binary) << bytes;
}

struct Comma : std::numpunct<char> {
  char do_decimal_point() const override { return ','; }
  char do_thousands_sep() const override { return '.'; }
  std::string do_grouping() const override { return "\3"; }
};

}  // namespace

TEST_CASE("the process is as before", "[guest]") {
  const std::string threads = GENERATE("1", "3");
  pass();  // what is made once per process
  const std::map<std::string, std::string> before = host::process_state();
  pass("{\"threads\":" + threads + "}");
  const std::map<std::string, std::string> after = host::process_state();
  for (const auto& [name, value] : before) {
    INFO(name);
    CHECK(after.at(name) == value);
  }
  CHECK(after.size() == before.size());
}

TEST_CASE("nothing is printed, whatever stands behind the standard descriptors", "[guest]") {
  const std::string want = pass();
  const host::Folder folder;
  const std::string file = folder.write("out", "");
  {
    const int out = open(file.c_str(), O_RDWR | O_CLOEXEC);
    REQUIRE(out >= 0);
    std::string got;
    {
      const Redirected redirected(out);
      got = pass();
    }
    close(out);
    CHECK(got == want);
    CHECK(host::read_file(file).empty());
  }
  std::string got;
  {  // a pipe that nobody reads: one byte would end the process with SIGPIPE
    int ends[2];
    REQUIRE(pipe(ends) == 0);
    close(ends[0]);
    struct sigaction action {};
    sigaction(SIGPIPE, nullptr, &action);
    CHECK(action.sa_handler == SIG_DFL);
    {
      const Redirected redirected(ends[1]);
      got = pass();
    }
    close(ends[1]);
  }
  CHECK(got == want);
  {  // closed: files of the library get their numbers
    const Redirected redirected(-1);
    got = pass();
  }
  CHECK(got == want);
}

TEST_CASE("N5: a decimal comma changes no bit and no text", "[guest]") {
  const std::string want = pass();
  {
    const std::locale before = std::locale::global(std::locale(std::locale(), new Comma));
    const std::string got = pass();
    std::locale::global(before);
    CHECK(got == want);
  }
  const host::Folder folder;
  REQUIRE(mkdir(folder.path("comma").c_str(), 0700) == 0);
  write_comma_locale(folder.path("comma"));
  setenv("LOCPATH", folder.path().c_str(), 1);
  const bool is_set = setlocale(LC_NUMERIC, "comma") != nullptr;
  char text[16];
  std::snprintf(text, sizeof text, "%.1f", 0.5);
  const std::string got = pass();
  const std::string name = setlocale(LC_NUMERIC, nullptr);
  setlocale(LC_NUMERIC, "C");
  unsetenv("LOCPATH");
  REQUIRE(is_set);
  CHECK(std::string(text) == "0,5");
  CHECK(name == "comma");
  CHECK(got == want);
}

TEST_CASE("N5: rounding modes, flushed denormals and traps of the host change nothing", "[guest]") {
  const std::string threads = GENERATE("1", "3");
  const std::string keys = "{\"threads\":" + threads + "}";
  const std::string want = pass(keys);
  const unsigned modes = _mm_getcsr();
  for (const int rounding : {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO, FE_TONEAREST}) {
    for (const unsigned flush : {0u, 0x8040u}) {
      fesetround(rounding);
      _mm_setcsr(_mm_getcsr() | flush);
      const unsigned before = _mm_getcsr() & ~0x3Fu;
      const std::string got = pass(keys);
      const unsigned after = _mm_getcsr() & ~0x3Fu;
      const int rounding_after = fegetround();
      fesetround(FE_TONEAREST);
      _mm_setcsr(modes);
      CHECK(before == after);
      CHECK(rounding_after == rounding);
      CHECK(got == want);
    }
  }
}

TEST_CASE("N5: a host that traps on invalid operations sees no SIGFPE from a NaN", "[guest]") {
  host::Rig rig;
  std::vector<float> values = rig.read("final_norm.weight");
  values[0] = std::numeric_limits<float>::infinity();
  rig.write("final_norm.weight", values);
  rig.set_tokens(host::make_rows(4, 17));
  feclearexcept(FE_ALL_EXCEPT);
  feenableexcept(FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW);
  host::Err err;
  const int32_t code = rig.step(err);
  const int traps = fegetexcept();
  fedisableexcept(FE_ALL_EXCEPT);
  CHECK(code == PLAIT_OUT_OF_RANGE);
  CHECK(err.word() == "nonfinite_loss");
  CHECK(traps == (FE_INVALID | FE_DIVBYZERO | FE_OVERFLOW));
}

TEST_CASE("200 runs leave no descriptor, thread, file or memory", "[guest]") {
  constexpr int kRuns = plait::test::kIsSanitized ? 30 : 200;
  for (int i = 0; i < 20; ++i) pass(i % 2 == 0 ? "{}" : R"({"threads":3})");
  const int64_t descriptors = host::descriptor_count(), threads = host::thread_count();
  const int64_t heap = host::heap_bytes(), resident = host::resident_bytes();
  for (int i = 0; i < kRuns; ++i) {
    pass(i % 2 == 0 ? "{}" : R"({"threads":3})");
    if (!host::has_descriptors(descriptors)) FAIL("descriptors after run " << i);
    if (!host::has_threads(threads)) FAIL("threads after run " << i);
  }
  CHECK(host::heap_bytes() - heap < 64 << 10);
  if (heap != 0) CHECK(host::resident_bytes() - resident < 8 << 20);
}
