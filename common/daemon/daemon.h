#ifndef MUSTER_COMMON_DAEMON_DAEMON_H_
#define MUSTER_COMMON_DAEMON_DAEMON_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace muster {

// Writes one line to standard error: time, program, and the text as a terminal may see it.
void DaemonLog(absl::string_view program, absl::string_view line);

// Returns 64 bits that nobody else has, for process nonces and ids; training never depends on them.
uint64_t RandomBits();

// Returns three quarters of the memory that this process may use
// (common/base/machine/usable_resources.h): the rest is for messages under way and everybody else.
uint64_t DefaultMemoryBytes();

// Returns whether a daemon that listens on `listening` (host:port) does so on all addresses of its
// machine.
bool IsOnAllAddresses(const std::string& listening);

// Returns the address of a daemon that listens on `listening` (host:port) for others: `advertise`
// if it is given (port 0 in it becomes the port listened on), otherwise `listening`, with the
// machine's name in place of a host that stands for all of its addresses.
std::string AdvertisedAddress(absl::string_view advertise, const std::string& listening);

// Has the system send SIGTERM to this process when its parent ends, in whatever way. For programs
// whose parent has one thread: the system watches the thread that started this process.
void EndWithParent();

// Makes writing to a file beyond the limit on file sizes (RLIMIT_FSIZE) an error, EFBIG, not this
// process's death.
void IgnoreFileSizeSignal();

// Does the same, also for writing to a pipe or socket that nobody reads any more: EPIPE. For the
// start of every daemon's main; `muster` itself ends with the program that reads its output.
void IgnoreFileSignals();

// Raises this process's limit on open files and connections as far as the system allows, up to
// 2^20; the initial limit is often much lower. Called before anything is opened.
void RaiseDescriptorLimit();

// Ends the process with `code` after this time, whatever it hangs in by then.
void ExitWithin(absl::Duration time, int code);

}  // namespace muster

#endif  // MUSTER_COMMON_DAEMON_DAEMON_H_
