#ifndef MUSTER_WORKER_STRATEGY_GROUP_RECOVERY_HELD_STORAGE_FOR_TESTING_H_
#define MUSTER_WORKER_STRATEGY_GROUP_RECOVERY_HELD_STORAGE_FOR_TESTING_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "common/checkpoint/memory_storage.h"
#include "common/checkpoint/storage.h"

namespace muster {

// A storage in memory in which files become durable only when a test lets them. Thread-safe.
class HeldStorage final : public CheckpointStorage {
 public:
  // From now on files wait before they become durable.
  void Hold() { Set(true); }
  // Lets files that wait, and later ones, become durable.
  void LetGo() { Set(false); }
  // Blocks until a file waits.
  void AwaitFile() {
    absl::MutexLock lock(&mutex_);
    const auto waits = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return waiting_ > 0; };
    mutex_.Await(absl::Condition(&waits));
  }
  // Lets so many more files be made; those after them fail as if the storage were full.
  void FailAfter(int files) {
    absl::MutexLock lock(&mutex_);
    files_left_ = files;
  }

  absl::StatusOr<std::unique_ptr<StorageWriter>> Create(absl::string_view uri) override {
    {
      absl::MutexLock lock(&mutex_);
      if (files_left_ == 0) return absl::ResourceExhaustedError("no space");
      if (files_left_ > 0) --files_left_;
    }
    absl::StatusOr<std::unique_ptr<StorageWriter>> writer = files_.Create(uri);
    if (!writer.ok()) return writer.status();
    return std::make_unique<Writer>(*std::move(writer), *this);
  }
  absl::StatusOr<std::unique_ptr<StorageReader>> Open(absl::string_view uri) const override {
    return files_.Open(uri);
  }
  absl::StatusOr<std::vector<std::string>> List(absl::string_view uri) const override {
    return files_.List(uri);
  }
  absl::StatusOr<bool> Exists(absl::string_view uri) const override { return files_.Exists(uri); }
  absl::Status DeleteRecursively(absl::string_view uri) override {
    return files_.DeleteRecursively(uri);
  }
  absl::Status SyncFolder(absl::string_view uri) override { return files_.SyncFolder(uri); }

 private:
  class Writer final : public StorageWriter {
   public:
    Writer(std::unique_ptr<StorageWriter> inner, HeldStorage& storage)
        : inner_(std::move(inner)), storage_(storage) {}
    absl::Status Append(absl::Span<const std::byte> bytes) override {
      return inner_->Append(bytes);
    }
    absl::Status Commit() override {
      storage_.Wait();
      return inner_->Commit();
    }

   private:
    const std::unique_ptr<StorageWriter> inner_;
    HeldStorage& storage_;
  };

  void Set(bool held) {
    absl::MutexLock lock(&mutex_);
    held_ = held;
  }
  void Wait() {
    absl::MutexLock lock(&mutex_);
    ++waiting_;
    const auto goes = [this]() ABSL_SHARED_LOCKS_REQUIRED(mutex_) { return !held_; };
    mutex_.Await(absl::Condition(&goes));
    --waiting_;
  }

  MemoryStorage files_;
  absl::Mutex mutex_;
  bool held_ ABSL_GUARDED_BY(mutex_) = false;
  int waiting_ ABSL_GUARDED_BY(mutex_) = 0;
  // Negative: any number.
  int files_left_ ABSL_GUARDED_BY(mutex_) = -1;
};

}  // namespace muster

#endif  // MUSTER_WORKER_STRATEGY_GROUP_RECOVERY_HELD_STORAGE_FOR_TESTING_H_
