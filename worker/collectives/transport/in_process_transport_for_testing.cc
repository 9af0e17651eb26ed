#include "worker/collectives/transport/in_process_transport_for_testing.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "common/base/clock.h"

namespace muster {
namespace {

// Number of looks at a pipe before an idle rank sleeps.
constexpr int kSpins = 64;

// A ring of bytes from one rank to another: one writes, one reads, positions count the stream's
// bytes.
class Ring {
 public:
  explicit Ring(size_t bytes) : bytes_(bytes), memory_(new std::byte[bytes]) {}

  size_t Write(absl::Span<const std::byte> from) {
    const uint64_t tail = tail_.load(std::memory_order_relaxed);
    const size_t room = bytes_ - (tail - head_.load(std::memory_order_acquire));
    const size_t taken = std::min(room, from.size());
    if (taken == 0) return 0;
    const size_t at = tail % bytes_;
    const size_t first = std::min(taken, bytes_ - at);
    std::memcpy(memory_.get() + at, from.data(), first);
    std::memcpy(memory_.get(), from.data() + first, taken - first);
    tail_.store(tail + taken, std::memory_order_release);
    return taken;
  }

  absl::Span<const std::byte> Peek(size_t want) const {
    const uint64_t head = head_.load(std::memory_order_relaxed);
    const size_t there = tail_.load(std::memory_order_acquire) - head;
    const size_t at = head % bytes_;
    return {memory_.get() + at, std::min({want, there, bytes_ - at})};
  }

  void Consume(size_t bytes) {
    head_.store(head_.load(std::memory_order_relaxed) + bytes, std::memory_order_release);
  }

 private:
  const size_t bytes_;
  const std::unique_ptr<std::byte[]> memory_;
  std::atomic<uint64_t> head_{0};
  std::atomic<uint64_t> tail_{0};
};

// The part of a rank that the others see, and what wakes the rank.
struct Member {
  // Counts events that may interest this rank.
  std::atomic<uint64_t> bell{0};
  std::atomic<bool> asleep{false};
  std::atomic<bool> stopped{false};
  std::atomic<bool> died{false};
  std::atomic<bool> left{false};
  std::atomic<bool> failed{false};

  absl::Mutex mutex;
  absl::CondVar awake;
  CallState call ABSL_GUARDED_BY(mutex);
  absl::Status health ABSL_GUARDED_BY(mutex);

  void Ring() {
    bell.fetch_add(1);
    if (!asleep.load()) return;
    absl::MutexLock lock(&mutex);
    awake.SignalAll();
  }

  // The first reason counts.
  void Fail(const absl::Status& reason) {
    {
      absl::MutexLock lock(&mutex);
      if (!health.ok()) return;
      health = reason;
      failed.store(true);
    }
    Ring();
  }
};

struct Allocation {
  size_t bytes = 0;
  std::vector<std::unique_ptr<std::byte[]>> of_rank;
};

}  // namespace

struct InProcessGroupState {
  InProcessGroupState(int size, const InProcessOptions& options) : options(options), size(size) {
    for (int rank = 0; rank < size; ++rank) members.push_back(std::make_unique<Member>());
    for (int pair = 0; pair < size * size; ++pair) {
      rings.push_back(std::make_unique<Ring>(options.pipe_bytes));
    }
  }

  Ring& ring(int from, int to) { return *rings[from * size + to]; }

  void RingAll() {
    for (auto& member : members) member->Ring();
  }

  // Applies `fault` to this group and to those made from it.
  template <typename Fault>
  void Inflict(int rank, const Fault& fault) {
    fault(*this, rank);
    std::vector<std::pair<std::shared_ptr<InProcessGroupState>, int>> others;
    {
      absl::MutexLock lock(&mutex);
      for (const auto& [id, child] : children) {
        const auto at = std::find(child.first.begin(), child.first.end(), rank);
        if (at != child.first.end()) others.emplace_back(child.second, at - child.first.begin());
      }
    }
    for (auto& [child, its_rank] : others) child->Inflict(its_rank, fault);
  }

  const InProcessOptions options;
  const int size;
  // Constant after construction.
  std::vector<std::unique_ptr<Member>> members;
  std::vector<std::unique_ptr<Ring>> rings;

  absl::Mutex mutex;
  // Allocations in their order.
  std::vector<std::shared_ptr<Allocation>> allocations ABSL_GUARDED_BY(mutex);
  using Child = std::pair<std::vector<int>, std::shared_ptr<InProcessGroupState>>;
  std::map<std::pair<uint64_t, std::vector<int>>, Child> children ABSL_GUARDED_BY(mutex);
};

namespace {

class InProcessMemory final : public SymmetricMemory {
 public:
  explicit InProcessMemory(std::shared_ptr<Allocation> allocation)
      : allocation_(std::move(allocation)) {}

  std::byte* of(int rank) override {
    std::byte* start = allocation_->of_rank[rank].get();
    return start + (64 - reinterpret_cast<uintptr_t>(start) % 64) % 64;
  }
  size_t bytes() const override { return allocation_->bytes; }

 private:
  const std::shared_ptr<Allocation> allocation_;
};

class InProcessPipe final : public Pipe {
 public:
  InProcessPipe(InProcessGroupState& group, int rank, int peer)
      : group_(group),
        self_(*group.members[rank]),
        other_(*group.members[peer]),
        peer_(peer),
        out_(group.ring(rank, peer)),
        in_(group.ring(peer, rank)) {}

  absl::StatusOr<size_t> Write(absl::Span<const std::byte> bytes) override {
    if (absl::Status status = Look(); !status.ok()) return status;
    if (other_.left.load()) return Gone();
    const size_t taken = out_.Write(bytes.subspan(0, group_.options.write_bytes));
    if (taken > 0) other_.Ring();
    return taken;
  }

  absl::StatusOr<absl::Span<const std::byte>> Peek(size_t want) override {
    if (absl::Status status = Look(); !status.ok()) return status;
    return in_.Peek(want);
  }

  // Fails the group if the peer has left and no bytes of it are there: for a rank that waits for
  // them.
  void FailIfLeft() {
    // In this order: what a rank wrote before it left is still good.
    const bool left = other_.left.load();
    if (left && in_.Peek(1).empty()) Gone();
  }

  void Consume(size_t bytes) override {
    in_.Consume(bytes);
    other_.Ring();
  }

  absl::StatusOr<size_t> Read(absl::Span<std::byte> out) override {
    size_t read = 0;
    while (read < out.size()) {
      absl::StatusOr<absl::Span<const std::byte>> bytes = Peek(out.size() - read);
      if (!bytes.ok()) return bytes.status();
      if (bytes->empty()) break;
      std::memcpy(out.data() + read, bytes->data(), bytes->size());
      Consume(bytes->size());
      read += bytes->size();
    }
    return read;
  }

  absl::Status Flush() override { return absl::OkStatus(); }
  bool in_memory() const override { return true; }

 private:
  // Stays here while the rank is stopped.
  absl::Status Look() {
    if (self_.stopped.load()) {
      absl::MutexLock lock(&self_.mutex);
      while (self_.stopped.load()) self_.awake.Wait(&self_.mutex);
    }
    if (!self_.failed.load()) return absl::OkStatus();
    absl::MutexLock lock(&self_.mutex);
    return self_.health;
  }

  absl::Status Gone() {
    self_.Fail(absl::UnavailableError(absl::StrCat("rank ", peer_, " has left the group")));
    absl::MutexLock lock(&self_.mutex);
    return self_.health;
  }

  InProcessGroupState& group_;
  Member& self_;
  Member& other_;
  const int peer_;
  Ring& out_;
  Ring& in_;
};

class InProcessTransport final : public Transport {
 public:
  InProcessTransport(std::shared_ptr<InProcessGroupState> group, int rank)
      : group_(std::move(group)), rank_(rank), self_(*group_->members[rank]) {
    for (int peer = 0; peer < group_->size; ++peer) {
      pipes_.push_back(std::make_unique<InProcessPipe>(*group_, rank, peer));
    }
  }

  ~InProcessTransport() override {
    self_.left.store(true);
    group_->RingAll();
  }

  int rank() const override { return rank_; }
  int size() const override { return group_->size; }
  Pipe& pipe(int peer) override { return *pipes_[peer]; }

  uint64_t Ticket() override { return self_.bell.load(); }

  void Wait(uint64_t ticket, absl::Span<const PipeInterest> interests,
            absl::Duration timeout) override {
    for (const PipeInterest& interest : interests) {
      if (interest.readable && !interest.may_leave) pipes_[interest.peer]->FailIfLeft();
    }
    for (int spin = 0; spin < kSpins; ++spin) {
      if (self_.bell.load() != ticket) return;
    }
    const absl::Duration until = RealClock().Monotonic() + timeout;
    absl::MutexLock lock(&self_.mutex);
    self_.asleep.store(true);
    while (self_.stopped.load() || (self_.bell.load() == ticket && self_.health.ok())) {
      const absl::Duration limit =
          self_.stopped.load() ? absl::InfiniteDuration() : until - RealClock().Monotonic();
      if (self_.awake.WaitWithTimeout(&self_.mutex, limit)) break;
    }
    self_.asleep.store(false);
  }

  void Wake() override { self_.Ring(); }

  absl::Status health() const override {
    if (!self_.failed.load(std::memory_order_acquire)) return absl::OkStatus();
    absl::MutexLock lock(&self_.mutex);
    return self_.health;
  }

  void Abort(const absl::Status& reason) override {
    absl::MutexLock lock(&group_->mutex);  // One reason for all.
    for (auto& member : group_->members) member->Fail(reason);
  }

  void Publish(const CallState& state) override {
    absl::MutexLock lock(&self_.mutex);
    self_.call = state;
  }

  std::vector<RankState> Survey(absl::Duration grace) override {
    std::vector<RankState> states;
    for (auto& member : group_->members) {
      RankState state;
      state.life = member->died.load()      ? RankState::Life::kDied
                   : member->left.load()    ? RankState::Life::kLeft
                   : member->stopped.load() ? RankState::Life::kSilent
                                            : RankState::Life::kAnswers;
      absl::MutexLock lock(&member->mutex);
      state.call = member->call;
      states.push_back(state);
    }
    return states;
  }

  absl::StatusOr<std::unique_ptr<SymmetricMemory>> Allocate(size_t bytes,
                                                            absl::Duration timeout) override {
    if (!group_->options.share_memory) {
      return absl::UnimplementedError("these ranks share no memory");
    }
    absl::MutexLock lock(&group_->mutex);
    const size_t index = allocated_++;
    if (index == group_->allocations.size()) {
      auto allocation = std::make_shared<Allocation>();
      allocation->bytes = bytes;
      for (int rank = 0; rank < group_->size; ++rank) {
        allocation->of_rank.push_back(std::make_unique<std::byte[]>(bytes + 64));
      }
      group_->allocations.push_back(std::move(allocation));
    }
    std::shared_ptr<Allocation> allocation = group_->allocations[index];
    if (allocation->bytes != bytes) {
      return absl::FailedPreconditionError(absl::StrCat(
          "rank ", rank_, " allocates ", bytes, " bytes, another rank ", allocation->bytes));
    }
    return std::make_unique<InProcessMemory>(std::move(allocation));
  }

  absl::StatusOr<std::unique_ptr<Transport>> Subgroup(absl::Span<const int> ranks, uint64_t id,
                                                      absl::Duration timeout) override {
    std::vector<int> members(ranks.begin(), ranks.end());
    const int rank = std::find(members.begin(), members.end(), rank_) - members.begin();
    absl::MutexLock lock(&group_->mutex);
    auto& child = group_->children[{id, members}];
    if (child.second == nullptr) {
      child.second =
          std::make_shared<InProcessGroupState>(static_cast<int>(members.size()), group_->options);
      child.first = std::move(members);
    }
    return std::make_unique<InProcessTransport>(child.second, rank);
  }

  std::string Description(int peer) const override { return peer == rank_ ? "" : "in process"; }

 private:
  const std::shared_ptr<InProcessGroupState> group_;
  const int rank_;
  Member& self_;
  std::vector<std::unique_ptr<InProcessPipe>> pipes_;
  // Number of this rank's allocations.
  size_t allocated_ = 0;
};

}  // namespace

InProcessGroup::InProcessGroup(int size, const InProcessOptions& options)
    : state_(std::make_shared<InProcessGroupState>(size, options)) {}

InProcessGroup::~InProcessGroup() = default;

std::unique_ptr<Transport> InProcessGroup::Join(int rank) {
  return std::make_unique<InProcessTransport>(state_, rank);
}

void InProcessGroup::Kill(int rank) {
  state_->Inflict(rank, [](InProcessGroupState& group, int dead) {
    group.members[dead]->died.store(true);
    const absl::Status reason = absl::UnavailableError(absl::StrCat("rank ", dead, " has died"));
    absl::MutexLock lock(&group.mutex);
    for (auto& member : group.members) member->Fail(reason);
  });
}

void InProcessGroup::Stop(int rank) {
  state_->Inflict(rank, [](InProcessGroupState& group, int stopped) {
    group.members[stopped]->stopped.store(true);
  });
}

void InProcessGroup::Continue(int rank) {
  state_->Inflict(rank, [](InProcessGroupState& group, int stopped) {
    Member& member = *group.members[stopped];
    absl::MutexLock lock(&member.mutex);
    member.stopped.store(false);
    member.awake.SignalAll();
  });
}

}  // namespace muster
