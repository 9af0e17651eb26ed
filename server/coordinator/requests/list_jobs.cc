#include "server/coordinator/requests/list_jobs.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "server/coordinator/job/job_state_machine.h"
#include "server/coordinator/requests/fits_pattern.h"
#include "server/coordinator/requests/job_status.h"

namespace muster {
namespace {

constexpr uint32_t kMaxPageJobs = 500;
constexpr size_t kMaxPageBytes = 4 << 20;
// Most jobs that one page examines, and most comparisons of jobs with patterns.
constexpr size_t kMaxExamined = 100'000;
constexpr size_t kMaxComparedWithPattern = 1000;

class Filter {
 public:
  explicit Filter(const v1::ListJobsRequest& request) : request_(request) {}

  bool Takes(const Job& job) const {
    const v1::JobSpec& spec = job.record.spec();
    const auto& states = request_.states();
    const std::string& called = request_.job();
    if (!called.empty() && called != job.id() && called != spec.name()) return false;
    if (!states.empty() && std::count(states.begin(), states.end(), job.record.state()) == 0) {
      return false;
    }
    if (!request_.owner().empty() && spec.owner() != request_.owner()) return false;
    for (const auto& [label, pattern] : request_.labels()) {
      const auto found = spec.labels().find(label);
      if (found == spec.labels().end() || !FitsPattern(pattern, found->second)) return false;
    }
    return request_.name().empty() || FitsPattern(request_.name(), spec.name());
  }

 private:
  const v1::ListJobsRequest& request_;
};

// Returns the most jobs that one page examines.
size_t MostExamined(const v1::ListJobsRequest& request) {
  const size_t patterns = (request.name().empty() ? 0 : 1) + request.labels_size();
  return patterns == 0 ? kMaxExamined : kMaxComparedWithPattern / patterns;
}

// A page as it grows.
class Page {
 public:
  Page(const v1::ListJobsRequest& request, int64_t now_unix_ms)
      : filter_(request),
        now_unix_ms_(now_unix_ms),
        view_(request.view() == v1::ListJobsRequest::SHORT ? JobView::kShort : JobView::kWhole),
        most_examined_(MostExamined(request)),
        size_(request.page_size() > 0 ? std::min(request.page_size(), kMaxPageJobs)
                                      : kMaxPageJobs) {}

  // Adds a job. False: the page ends before it.
  bool Add(const Job& job) {
    bool full = ++examined_ > most_examined_;
    if (!full) {
      if (!filter_.Takes(job)) return true;
      v1::JobStatus status = StatusOf(job, now_unix_ms_, view_);
      bytes_ += status.ByteSizeLong();
      // A job that is larger than a page has a page of its own.
      full = static_cast<uint32_t>(reply_.jobs_size()) == size_ ||
             (reply_.jobs_size() > 0 && bytes_ > kMaxPageBytes);
      if (!full) *reply_.add_jobs() = std::move(status);
    }
    if (full) reply_.set_next_page_token(absl::StrCat(job.record.number()));
    return !full;
  }

  v1::ListJobsReply Take() { return std::move(reply_); }

 private:
  const Filter filter_;
  const int64_t now_unix_ms_;
  const JobView view_;
  const size_t most_examined_;
  const uint32_t size_;
  v1::ListJobsReply reply_;
  size_t examined_ = 0;
  size_t bytes_ = 0;
};

}  // namespace

absl::StatusOr<v1::ListJobsReply> ListJobs(const JobTable& jobs,
                                           const v1::ListJobsRequest& request) {
  // Number of the page's first job, or of a neighbour of it.
  uint64_t first = 0;
  const bool from_end = request.page_token().empty();
  if (!from_end && !absl::SimpleAtoi(request.page_token(), &first)) {
    return absl::InvalidArgumentError(absl::StrCat("page_token is \"", request.page_token(),
                                                   "\"; send next_page_token of the page before"));
  }
  const auto& all = jobs.jobs();
  Page page(request, jobs.NowUnixMs());
  if (const Job* job = jobs.Find(request.job()); job != nullptr) {
    // An id means this one job, whatever others are called.
    page.Add(*job);
  } else if (request.newest_first()) {
    for (auto it = from_end ? all.end() : all.upper_bound(first); it != all.begin();) {
      if (!page.Add(*(--it)->second)) break;
    }
  } else {
    for (auto it = all.lower_bound(first); it != all.end() && page.Add(*it->second);) ++it;
  }
  return page.Take();
}

const Job* FindJobCalled(const JobTable& jobs, absl::string_view called) {
  if (const Job* job = jobs.Find(called); job != nullptr) return job->removing ? nullptr : job;
  const Job* last = nullptr;
  for (auto it = jobs.jobs().rbegin(); it != jobs.jobs().rend(); ++it) {
    const Job& job = *it->second;
    if (job.removing || job.record.spec().name() != called) continue;
    if (!IsFinal(job.record.state())) return &job;
    if (last == nullptr) last = &job;
  }
  return last;
}

}  // namespace muster
