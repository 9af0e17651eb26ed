#include "tests/benchmarks/parameter_server/store_log.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "common/base/payload.h"
#include "common/base/status_macros.h"
#include "common/checkpoint/local_storage.h"
#include "proto/parameter_service.pb.h"
#include "proto/status.pb.h"
#include "server/shard/shard_engine.h"
#include "server/shard/storage/rocksdb_store.h"

namespace muster {
namespace {

constexpr uint64_t kFileBytes = uint64_t{256} << 20;
constexpr size_t kLogBlockBytes = 1 << 20;
constexpr uint32_t kBlocks = 16;

absl::Status FileError(const char* what) {
  return absl::UnavailableError(absl::StrCat(what, " failed: ", strerror(errno)));
}

double ProcessorSeconds() {
  rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

// From its making on.
class Stopwatch {
 public:
  double seconds() const { return absl::ToDoubleSeconds(absl::Now() - start_); }
  LogSpeed Speed(uint64_t bytes) const {
    const double gigabytes = static_cast<double>(bytes) / 1e9;
    return {.gb_per_second = gigabytes / seconds(),
            .cpu_seconds_per_gb = (ProcessorSeconds() - cpu_start_) / gigabytes};
  }

 private:
  absl::Time start_ = absl::Now();
  double cpu_start_ = ProcessorSeconds();
};

// Leaves nothing of a folder's files in the system's cache, as after the machine's restart.
absl::Status ForgetCached(const std::string& folder) {
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const int fd = ::open(entry.path().c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return FileError("open");
    const absl::Cleanup close = [fd] { ::close(fd); };
    if (::fsync(fd) != 0) return FileError("fsync");
    if (::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) != 0) return FileError("posix_fadvise");
  }
  return absl::OkStatus();
}

class EngineLog final : public BenchLog {
 public:
  absl::Status Start(const std::string& folder) {
    folder_ = folder;
    v1::TablesSchema& schema = *open_.mutable_schema();
    v1::TensorSchema& tensor = *schema.add_tensors();
    tensor.set_name("w");
    tensor.add_shape(kBlocks * kLogBlockBytes / sizeof(float));
    tensor.mutable_initializer()->set_kind(v1::Initializer::CONSTANT);
    schema.set_partitions(1);
    schema.set_block_bytes(kLogBlockBytes);
    schema.mutable_optimizer()->set_name("sgd");
    schema.mutable_optimizer()->set_learning_rate(1e-3);
    schema.set_total_steps(uint64_t{1} << 40);
    open_.set_job_id("bench");
    open_.set_generation(1);
    open_.set_slots(1);
    open_.set_incarnation(1);
    open_.mutable_update()->set_unlimited_staleness(true);
    open_.mutable_update()->set_durability(v1::UpdateSpec::EVERY_PUSH);
    open_.add_partitions()->set_partition(0);
    MUSTER_RETURN_IF_ERROR(OpenEngine());
    return engine_->OpenTables(open_).status();
  }

  absl::StatusOr<LogSpeed> Push(size_t bytes, int in_flight, Memory memory, uint64_t warm_bytes,
                                absl::Duration duration) override {
    memory_ = memory;
    const Payload payload = Payload::Of(std::vector<float>(bytes / sizeof(float), 0.5f));
    const uint32_t blocks = bytes / kLogBlockBytes;
    uint64_t pushed = 0;
    bool warm = warm_bytes == 0;
    Stopwatch watch;
    while (true) {
      for (uint32_t first = 0; first < kBlocks; first += blocks) {
        v1::ExchangeRequest push = Request();
        push.mutable_dense_push()->set_first_block(first);
        push.mutable_dense_push()->set_blocks(blocks);
        push.mutable_dense_push()->set_examples(1);
        Call(std::move(push), payload, in_flight);
        pushed += bytes;
      }
      v1::ExchangeRequest close = Request();
      close.mutable_close();
      ++clock_;
      Call(std::move(close), Payload(), in_flight);
      if (!warm && pushed >= warm_bytes) {
        AwaitAtMost(0);
        warm = true;
        pushed = 0;
        watch = Stopwatch();
      } else if (warm && watch.seconds() > absl::ToDoubleSeconds(duration)) {
        AwaitAtMost(0);
        absl::MutexLock lock(&mutex_);
        MUSTER_RETURN_IF_ERROR(failure_);
        return watch.Speed(pushed);
      }
    }
  }

  absl::StatusOr<Recovery> Recover(uint64_t bytes) override {
    // An image may come in between, after which little is left.
    for (int tries = 0; tries < 8; ++tries) {
      const uint64_t logged = engine_->Stats().tables(0).log_bytes();
      if (tries > 0 && logged >= bytes / 2) break;
      MUSTER_RETURN_IF_ERROR(Push(4 * kLogBlockBytes, 4, Memory::kPrivate,
                                  bytes - std::min(bytes, logged), absl::ZeroDuration())
                                 .status());
    }
    engine_.reset();
    store_.reset();
    MUSTER_RETURN_IF_ERROR(ForgetCached(folder_));
    const Stopwatch watch;
    MUSTER_RETURN_IF_ERROR(OpenEngine());
    const Stopwatch reading;
    MUSTER_RETURN_IF_ERROR(engine_->OpenTables(open_).status());
    Recovery recovery;
    recovery.seconds = watch.seconds();
    const std::vector<v1::ReplayStatus> replays = engine_->Replays();
    if (replays.empty()) return absl::InternalError("nothing was replayed");
    recovery.bytes = replays[0].bytes();
    recovery.replay = reading.Speed(recovery.bytes);
    recovery.replay.gb_per_second =
        static_cast<double>(recovery.bytes) / replays[0].seconds() / 1e9;
    return recovery;
  }

 private:
  absl::Status OpenEngine() {
    MUSTER_ASSIGN_OR_RETURN(std::unique_ptr<RocksDbStore> store,
                            RocksDbStore::Create({.data_dir = folder_}));
    store_ = std::move(store);
    ShardEngine::Options options;
    options.store = store_;
    options.log_dir = folder_ + "/logs";
    options.checkpoint_storage = &checkpoints_;
    MUSTER_ASSIGN_OR_RETURN(engine_, ShardEngine::Create(std::move(options)));
    return absl::OkStatus();
  }

  v1::ExchangeRequest Request() const {
    v1::ExchangeRequest request;
    request.set_job_id("bench");
    request.set_generation(1);
    request.set_incarnation(1);
    request.set_clock(clock_);
    return request;
  }

  void Call(v1::ExchangeRequest request, const Payload& payload, int in_flight) {
    AwaitAtMost(in_flight - 1);
    {
      absl::MutexLock lock(&mutex_);
      ++in_flight_;
    }
    ExchangeCall call;
    call.request = std::make_shared<const v1::ExchangeRequest>(std::move(request));
    call.payload = payload;
    if (memory_ == Memory::kShared) {
      call.payload_memory = ExchangeCall::PayloadMemory::kShared;
    }
    call.done = [this](v1::ExchangeReply reply, Payload) {
      absl::MutexLock lock(&mutex_);
      --in_flight_;
      if (reply.code() != 0) failure_.Update(absl::InternalError(reply.message()));
    };
    engine_->Execute(std::move(call));
  }

  void AwaitAtMost(int calls) {
    absl::MutexLock lock(&mutex_);
    const auto few = [this, calls]()
                         ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return in_flight_ <= calls; };
    mutex_.Await(absl::Condition(&few));
  }

  std::string folder_;
  LocalStorage checkpoints_;
  v1::OpenTablesRequest open_;
  uint64_t clock_ = 0;
  Memory memory_ = Memory::kPrivate;
  absl::Mutex mutex_;
  int in_flight_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);
  // The engine ends first.
  std::shared_ptr<RocksDbStore> store_;
  std::unique_ptr<ShardEngine> engine_;
};

}  // namespace

absl::StatusOr<LogSpeed> RawLogSpeed(const std::string& folder, size_t bytes,
                                     absl::Duration duration) {
  const std::string path = folder + "/raw";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return FileError("open");
  const absl::Cleanup close = [&] {
    ::close(fd);
    ::unlink(path.c_str());
  };
  if (::posix_fallocate(fd, 0, kFileBytes) != 0) return FileError("posix_fallocate");
  const std::vector<char> buffer(bytes, 7);
  uint64_t written = 0;
  uint64_t at = 0;
  bool warm = false;
  Stopwatch watch;
  while (true) {
    if (at + bytes > kFileBytes) {
      // All of it is written now.
      at = 0;
      if (!warm) watch = Stopwatch();
      if (!warm) written = 0;
      warm = true;
    }
    if (::pwrite(fd, buffer.data(), bytes, at) != static_cast<ssize_t>(bytes)) {
      return FileError("pwrite");
    }
    if (warm && ::fdatasync(fd) != 0) return FileError("fdatasync");
    at += bytes;
    written += bytes;
    if (warm && watch.seconds() > absl::ToDoubleSeconds(duration)) return watch.Speed(written);
  }
}

absl::StatusOr<std::unique_ptr<BenchLog>> BenchLog::Open(const std::string& folder) {
  auto log = std::make_unique<EngineLog>();
  MUSTER_RETURN_IF_ERROR(log->Start(folder));
  return std::unique_ptr<BenchLog>(std::move(log));
}

}  // namespace muster
