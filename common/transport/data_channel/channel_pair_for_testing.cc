#include "common/transport/data_channel/channel_pair_for_testing.h"

#include <utility>

#include "common/transport/data_channel/shared_channel.h"
#include "common/transport/data_channel/socket_channel.h"

namespace muster {

std::byte* RecordingHandler::PlaceFor(absl::string_view, size_t bytes) {
  absl::MutexLock lock(&mutex_);
  return bytes == room_.size() ? room_.data() : nullptr;
}

void RecordingHandler::ReceiveAt(absl::Span<std::byte> room) {
  absl::MutexLock lock(&mutex_);
  room_ = room;
}

void RecordingHandler::OnMessage(absl::string_view header, Payload payload) {
  absl::MutexLock lock(&mutex_);
  if (drop_payloads_) payload = {};
  messages_.push_back({std::string(header), std::move(payload)});
}

void RecordingHandler::OnSent(size_t bytes) {
  absl::MutexLock lock(&mutex_);
  sent_bytes_ += bytes;
}

void RecordingHandler::OnClosed(const absl::Status& reason) {
  absl::MutexLock lock(&mutex_);
  closed_ = true;
  reason_ = reason;
}

std::vector<RecordingHandler::Message> RecordingHandler::AwaitMessages(size_t count) {
  absl::MutexLock lock(&mutex_);
  const auto enough = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    return messages_.size() >= count;
  };
  mutex_.Await(absl::Condition(&enough));
  return messages_;
}

void RecordingHandler::AwaitSent(size_t bytes) {
  absl::MutexLock lock(&mutex_);
  const auto enough = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return sent_bytes_ >= bytes; };
  mutex_.Await(absl::Condition(&enough));
}

absl::Status RecordingHandler::AwaitClosed() {
  absl::MutexLock lock(&mutex_);
  mutex_.Await(absl::Condition(&closed_));
  return reason_;
}

size_t RecordingHandler::received() const {
  absl::MutexLock lock(&mutex_);
  return messages_.size();
}

bool RecordingHandler::closed() const {
  absl::MutexLock lock(&mutex_);
  return closed_;
}

void RecordingHandler::Forget() {
  std::vector<Message> messages;
  absl::MutexLock lock(&mutex_);
  messages.swap(messages_);
}

void RecordingHandler::DropPayloads() {
  absl::MutexLock lock(&mutex_);
  drop_payloads_ = true;
}

ListenerForTesting::ListenerForTesting(ChannelListenerOptions options) : io_(*ChannelIo::Create()) {
  options.host = "127.0.0.1";
  ChannelListener::Sinks sinks;
  sinks.stream = [this](std::unique_ptr<ChannelStream> stream) {
    Add(SocketChannel::Create(std::move(stream), io_->NextLoop(), io_->pool()));
  };
  sinks.shared_memory = [this](SharedLink link) {
    Add(SharedChannel::Create(std::move(link), io_->NextLoop(), io_->pool()));
  };
  listener_ = *ChannelListener::Create(options, std::move(sinks));
  address_ = listener_->Invite();
  address_.host = "127.0.0.1";
}

ListenerForTesting::~ListenerForTesting() { listener_.reset(); }

std::shared_ptr<FrameChannel> ListenerForTesting::AwaitChannel() {
  absl::MutexLock lock(&mutex_);
  const auto any = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return !channels_.empty(); };
  mutex_.Await(absl::Condition(&any));
  std::shared_ptr<FrameChannel> channel = std::move(channels_.back());
  channels_.pop_back();
  return channel;
}

void ListenerForTesting::Add(std::shared_ptr<FrameChannel> channel) {
  absl::MutexLock lock(&mutex_);
  channels_.push_back(std::move(channel));
}

}  // namespace muster
