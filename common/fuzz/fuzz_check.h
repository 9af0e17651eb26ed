#ifndef MUSTER_COMMON_FUZZ_FUZZ_CHECK_H_
#define MUSTER_COMMON_FUZZ_FUZZ_CHECK_H_

namespace muster {

// Prints what failed and aborts the process, which tells the fuzzer to keep the input.
[[noreturn]] void FuzzFailed(const char* file, int line, const char* condition);

}  // namespace muster

// Checks what a fuzz target promises of its code for any input. A macro, to show the condition.
#define FUZZ_CHECK(condition) \
  (static_cast<bool>(condition) ? void() : ::muster::FuzzFailed(__FILE__, __LINE__, #condition))

#endif  // MUSTER_COMMON_FUZZ_FUZZ_CHECK_H_
