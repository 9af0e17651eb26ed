#ifndef MUSTER_SERVER_COORDINATOR_CALLS_SHARED_REPLY_H_
#define MUSTER_SERVER_COORDINATOR_CALLS_SHARED_REPLY_H_

#include <memory>
#include <string>
#include <utility>

namespace muster {

// A reply that many callers get. It is serialised once, and callers share its bytes: each of n
// tasks that meet is told of n peers, so copies for each task would take n * n times a peer's size.
// Logic thread only; the bytes may be read on any thread.
template <typename Reply>
class SharedReply {
 public:
  explicit SharedReply(Reply message) : message_(std::move(message)) {}

  const Reply& message() const { return message_; }

  // Returns the serialised message.
  const std::shared_ptr<const std::string>& bytes() const {
    if (bytes_ == nullptr) {
      bytes_ = std::make_shared<const std::string>(message_.SerializeAsString());
    }
    return bytes_;
  }

 private:
  const Reply message_;
  mutable std::shared_ptr<const std::string> bytes_;
};

}  // namespace muster

#endif  // MUSTER_SERVER_COORDINATOR_CALLS_SHARED_REPLY_H_
