// Durable appends of the mutation log beside the raw pattern under it: one pwrite and one fdatasync
// per commit, into a file that was allocated only, and into one that was written before (as a
// reused segment was). Measures the file system under TEST_TMPDIR or /tmp. Case: bytes of a record,
// records of a commit.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/payload.h"
#include "server/shard/storage/mutation_log.h"

namespace muster {
namespace {

constexpr uint64_t kSegmentBytes = 64 << 20;
constexpr size_t kHeaderBytes = 64;

std::string Folder() {
  const char* folder = std::getenv("TEST_TMPDIR");
  return absl::StrCat(folder != nullptr ? folder : "/tmp", "/mutation_log_benchmark-", ::getpid());
}

// Returns a payload as a transport delivers it: in spans of 8 KiB.
Payload Spans(const std::vector<std::byte>& bytes) {
  std::vector<Payload::Span> spans;
  for (size_t at = 0; at < bytes.size(); at += 8192) {
    spans.push_back(absl::MakeConstSpan(bytes).subspan(at, 8192));
  }
  return Payload(std::move(spans), nullptr);
}

void BM_MutationLog(benchmark::State& state) {
  const std::string directory = Folder();
  auto log = MutationLog::Open(directory, {.segment_bytes = kSegmentBytes});
  if (!log.ok()) {
    state.SkipWithError(std::string(log.status().message()).c_str());
    return;
  }
  const std::vector<std::byte> bytes(state.range(0), std::byte{7});
  const std::vector<std::byte> header(kHeaderBytes, std::byte{9});
  const Payload payload = Spans(bytes);
  // Runs until files are reused, as they are in a server that has run for a while.
  for (uint64_t written = 0; written < 3 * kSegmentBytes; written += 1 << 20) {
    const std::vector<std::byte> fill(1 << 20);
    if (!(*log)->Append({}, Spans(fill)).ok()) state.SkipWithError("cannot fill the log");
  }
  for (auto _ : state) {
    absl::Status status;
    for (int64_t i = 0; i < state.range(1); ++i) {
      status.Update((*log)->Append(header, payload).status());
    }
    status.Update((*log)->Sync());
    status.Update((*log)->TruncateBefore((*log)->next_lsn()));
    if (!status.ok()) state.SkipWithError(std::string(status.message()).c_str());
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * state.range(1));
  log->reset();
  if (!MutationLog::Destroy(directory).ok()) state.SkipWithError("cannot delete the log");
}

void RawPattern(benchmark::State& state, bool written_before) {
  const std::string path = Folder() + ".raw";
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  const size_t commit = (state.range(0) + kHeaderBytes) * state.range(1);
  const std::vector<std::byte> bytes(commit, std::byte{7});
  const auto prepare = [&] {
    if (::ftruncate(fd, 0) != 0 || ::posix_fallocate(fd, 0, kSegmentBytes) != 0) return false;
    const std::vector<std::byte> fill(1 << 20);
    for (uint64_t at = 0; written_before && at < kSegmentBytes; at += fill.size()) {
      if (::pwrite(fd, fill.data(), fill.size(), at) < 0) return false;
    }
    return ::fsync(fd) == 0;
  };
  if (fd < 0 || !prepare()) state.SkipWithError("cannot prepare the file");
  uint64_t at = 0;
  for (auto _ : state) {
    if (at + commit > kSegmentBytes) {
      at = 0;
      // A file that was only allocated is no longer that.
      if (!written_before) {
        state.PauseTiming();
        if (!prepare()) state.SkipWithError("cannot prepare the file");
        state.ResumeTiming();
      }
    }
    if (::pwrite(fd, bytes.data(), commit, at) != static_cast<ssize_t>(commit) ||
        ::fdatasync(fd) != 0) {
      state.SkipWithError("cannot write");
    }
    at += commit;
  }
  state.SetBytesProcessed(state.iterations() * state.range(0) * state.range(1));
  ::close(fd);
  ::unlink(path.c_str());
}

void BM_RawAllocated(benchmark::State& state) { RawPattern(state, false); }
void BM_RawOverwritten(benchmark::State& state) { RawPattern(state, true); }

void Cases(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"bytes", "group"});
  for (const int64_t bytes : {4 << 10, 256 << 10, 4 << 20}) {
    for (const int64_t group : {1, 8}) {
      if (bytes * group <= 8 << 20) benchmark->Args({bytes, group});
    }
  }
  benchmark->UseRealTime()->MinTime(0.2);
}

BENCHMARK(BM_MutationLog)->Apply(Cases);
BENCHMARK(BM_RawAllocated)->Apply(Cases);
BENCHMARK(BM_RawOverwritten)->Apply(Cases);

}  // namespace
}  // namespace muster
