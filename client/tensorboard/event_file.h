#ifndef MUSTER_CLIENT_TENSORBOARD_EVENT_FILE_H_
#define MUSTER_CLIENT_TENSORBOARD_EVENT_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace muster {

namespace tensorboard {
class Event;
}  // namespace tensorboard

// An event file of TensorBoard, which may be read while it grows. It is a TFRecord file of Event
// messages (client/tensorboard/event.proto). A record is
//
//   8 bytes  length of the message      (all numbers little-endian)
//   4 bytes  masked CRC-32C of the length
//   the message
//   4 bytes  masked CRC-32C of the message
//
// The first event names the format's version. Errors are FileError's. Not thread-safe.
class EventFile {
 public:
  // Begins a file. AlreadyExists: there is something at `path`.
  static absl::StatusOr<std::unique_ptr<EventFile>> Create(const std::string& path,
                                                           double wall_seconds);
  // Drops events that were not flushed.
  ~EventFile();

  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  void AddScalar(absl::string_view tag, uint64_t step, double wall_seconds, double value);
  // Makes readers drop earlier points of this step and of later steps, in this file and in files
  // whose names sort before its name.
  void AddRestart(uint64_t step, double wall_seconds);
  // Writes the added events, so that readers see them.
  absl::Status Flush();

 private:
  EventFile(std::string path, int file);

  void Add(const tensorboard::Event& event);

  const std::string path_;
  const int file_;
  std::string pending_;
};

}  // namespace muster

#endif  // MUSTER_CLIENT_TENSORBOARD_EVENT_FILE_H_
