#include "client/tensorboard/event_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/tensorboard/event.pb.h"
#include "common/base/crc32c.h"
#include "common/files/file_error.h"

namespace muster {
namespace {

constexpr char kFileVersion[] = "brain.Event:2";

// Appends the lowest bytes of a number, the lowest first.
void AppendNumber(uint64_t number, int bytes, std::string& into) {
  for (int i = 0; i < bytes; ++i) into += static_cast<char>(number >> (8 * i));
}

}  // namespace

absl::StatusOr<std::unique_ptr<EventFile>> EventFile::Create(const std::string& path,
                                                             double wall_seconds) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (file < 0) return FileError("create", path, errno);
  std::unique_ptr<EventFile> created(new EventFile(path, file));
  tensorboard::Event first;
  first.set_wall_time(wall_seconds);
  first.set_file_version(kFileVersion);
  created->Add(first);
  return created;
}

EventFile::EventFile(std::string path, int file) : path_(std::move(path)), file_(file) {}

EventFile::~EventFile() { close(file_); }

void EventFile::AddScalar(absl::string_view tag, uint64_t step, double wall_seconds, double value) {
  tensorboard::Event event;
  event.set_wall_time(wall_seconds);
  event.set_step(static_cast<int64_t>(step));
  tensorboard::Summary::Value& added = *event.mutable_summary()->add_value();
  added.set_tag(std::string(tag));
  added.set_simple_value(static_cast<float>(value));
  Add(event);
}

void EventFile::AddRestart(uint64_t step, double wall_seconds) {
  tensorboard::Event event;
  event.set_wall_time(wall_seconds);
  event.set_step(static_cast<int64_t>(step));
  event.mutable_session_log()->set_status(tensorboard::SessionLog::START);
  Add(event);
}

void EventFile::Add(const tensorboard::Event& event) {
  const std::string message = event.SerializeAsString();
  std::string length;
  AppendNumber(message.size(), 8, length);
  absl::StrAppend(&pending_, length);
  AppendNumber(MaskedCrc32c(length), 4, pending_);
  absl::StrAppend(&pending_, message);
  AppendNumber(MaskedCrc32c(message), 4, pending_);
}

absl::Status EventFile::Flush() {
  size_t written = 0;
  while (written < pending_.size()) {
    const ssize_t bytes = write(file_, pending_.data() + written, pending_.size() - written);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes < 0) return FileError("write", path_, errno);
    written += static_cast<size_t>(bytes);
  }
  pending_.clear();
  return absl::OkStatus();
}

}  // namespace muster
