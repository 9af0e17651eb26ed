#ifndef MUSTER_COMMON_FUZZ_REPLAY_H_
#define MUSTER_COMMON_FUZZ_REPLAY_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace muster {

// A fuzz target in a program that was built without a fuzzer.
struct FuzzTarget {
  const char* name;
  // The folder of its seeds among the run files.
  const char* corpus;
  int (*run)(const uint8_t* data, size_t size);
};

// All targets of this program; fuzz_replay_test in fuzz.bzl defines this. Each is one test case,
// which gives the target every seed and a fixed number of mutations of them, the same ones each
// time.
std::vector<FuzzTarget> FuzzTargets();

}  // namespace muster

#endif  // MUSTER_COMMON_FUZZ_REPLAY_H_
