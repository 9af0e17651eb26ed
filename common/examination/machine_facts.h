#ifndef MUSTER_COMMON_EXAMINATION_MACHINE_FACTS_H_
#define MUSTER_COMMON_EXAMINATION_MACHINE_FACTS_H_

#include <string>

#include "absl/strings/string_view.h"

namespace muster {

namespace v1 {
class MachineFacts;
}  // namespace v1

// Reads what the system says of this machine and of this process's limits. Where it says nothing,
// the fields stay as they are. `root` is the folder that holds /proc and /sys, for tests.
void ReadMachineFacts(v1::MachineFacts& facts, const std::string& root = "");

// Returns the word in brackets of a setting such as "always [madvise] never"; empty: there is none.
std::string ChosenWord(absl::string_view setting);

}  // namespace muster

#endif  // MUSTER_COMMON_EXAMINATION_MACHINE_FACTS_H_
