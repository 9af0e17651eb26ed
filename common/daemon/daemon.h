#ifndef MUSTER_COMMON_DAEMON_DAEMON_H_
#define MUSTER_COMMON_DAEMON_DAEMON_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster {

// Writes one line to standard error: time, program, and the text as a terminal may see it.
void DaemonLog(absl::string_view program, absl::string_view line);

// 64 bits that nobody else has: for process nonces and ids, never for what training depends on.
uint64_t RandomBits();

// Three quarters of the memory that this process may use (common/base/machine/usable_resources.h):
// the rest is for messages under way and everybody else.
uint64_t DefaultMemoryBytes();

// Whether a daemon that listens on `listening` (host:port) does so on all of its machine's
// addresses.
bool IsOnAllAddresses(const std::string& listening);

// Under which address others reach a daemon that listens on `listening` (host:port): `advertise` if
// it is given (port 0 in it becomes the port listened on), otherwise `listening`, with the
// machine's name in place of a host that stands for all of its addresses.
std::string AdvertisedAddress(absl::string_view advertise, const std::string& listening);

// Has the system send SIGTERM to this process when its parent ends, however that ends. For programs
// whose parent has one thread: the system watches the thread that started this process.
void EndWithParent();

// Makes writing to a file that would grow past the limit on the size of files (RLIMIT_FSIZE) an
// error, EFBIG, not this process's death.
void IgnoreFileSizeSignal();

// The same, and for writing to a pipe or socket that nobody reads any more, EPIPE. For the start of
// every daemon's main; `muster` itself ends with the program that reads its output.
void IgnoreFileSignals();

// Lets this process open as many files and connections as the system allows it to, up to 2^20: the
// limit that it is given to begin with is often much lower. Before anything is opened.
void RaiseDescriptorLimit();

// Ends the process with `code` after this time, whatever it hangs in by then.
void ExitWithin(absl::Duration time, int code);

}  // namespace muster

#endif  // MUSTER_COMMON_DAEMON_DAEMON_H_
