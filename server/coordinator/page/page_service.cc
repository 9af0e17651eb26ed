#include "server/coordinator/page/page_service.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "common/base/fingerprint.h"
#include "common/base/version.h"
#include "common/page/page_assets.h"
#include "proto/page.pb.h"
#include "server/coordinator/page/page_api.h"
#include "server/page/page_security.h"
#include "server/page/request_target.h"

namespace muster {
namespace {

constexpr char kJson[] = "application/json";
constexpr char kPage[] = "index.html";
constexpr char kIcon[] = "icon.svg";
// Scrapes are farther apart.
constexpr absl::Duration kMetricsAge = absl::Milliseconds(500);

// The things that a path can name.
enum class Room { kNothing, kPage, kIcon, kAsset, kInfo, kCalls, kMetrics };

Room RoomOf(absl::Span<const std::string> path) {
  if (path.empty()) return Room::kPage;
  // Browsers ask for it at every address that shows no page, such as /metrics.
  if (path[0] == "favicon.ico" && path.size() == 1) return Room::kIcon;
  if (path[0] == "metrics" && path.size() == 1) return Room::kMetrics;
  if (path[0] == "assets" && path.size() == 2) return Room::kAsset;
  const bool lists = path[0] == "compare" || path[0] == "searches" || path[0] == "cluster";
  if (lists && path.size() == 1) return Room::kPage;
  const bool has_views = path[0] == "jobs" || path[0] == "searches";
  if (has_views && path.size() == 2 && !path[1].empty()) return Room::kPage;
  if (path[0] != "api" || path.size() < 3 || path[1] != "v1") return Room::kNothing;
  if (path[2] == "page" && path.size() == 3) return Room::kInfo;
  return PageApi::MethodOf(path.subspan(2)).empty() ? Room::kNothing : Room::kCalls;
}

int HttpStatusOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kOutOfRange:
      return 400;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAborted:
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kFailedPrecondition:
      return 409;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kUnavailable:
      return 503;
    default:
      return 500;
  }
}

// Returns the type of a file by its name's end.
std::string TypeOf(absl::string_view name) {
  constexpr std::pair<absl::string_view, const char*> kTypes[] = {
      {".html", "text/html; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},
      {".js", "text/javascript; charset=utf-8"},
      {".json", kJson},
      {".svg", "image/svg+xml"},
      {".png", "image/png"},
      {".woff2", "font/woff2"}};
  for (const auto& [end, type] : kTypes) {
    if (absl::EndsWith(name, end)) return type;
  }
  return "application/octet-stream";
}

std::string TagOf(absl::string_view content) {
  return absl::StrCat("\"", absl::Hex(Fingerprint(content), absl::kZeroPad16), "\"");
}

// Returns whether a client that asks has a content with this tag. Tags are compared weakly: the
// content is the same, compressed or not.
bool Has(const HttpRequest& request, absl::string_view tag) {
  const auto values = request.Values("If-None-Match");
  return std::any_of(values.begin(), values.end(),
                     [&](absl::string_view value) { return absl::StrContains(value, tag); });
}

template <typename Message>
std::string JsonOf(const Message& message) {
  std::string json;
  // Neither message has a field that JSON lacks.
  (void)google::protobuf::util::MessageToJsonString(message, &json);
  return json;
}

HttpAnswer ErrorAnswer(const absl::Status& status) {
  v1::PageError answer;
  answer.mutable_error()->set_code(absl::StatusCodeToString(status.code()));
  answer.mutable_error()->set_message(std::string(status.message()));
  HttpAnswer error = {.status = HttpStatusOf(status.code()),
                      .content_type = kJson,
                      .body = JsonOf(answer),
                      .headers = {{"Cache-Control", "no-store"}}};
  if (error.status == 401) error.headers.emplace_back("WWW-Authenticate", "Bearer");
  return error;
}

// Returns a refusal whose HTTP status says more than the code does.
HttpAnswer Refusal(int http_status, const std::string& message) {
  HttpAnswer refusal = ErrorAnswer(absl::InvalidArgumentError(message));
  refusal.status = http_status;
  return refusal;
}

// Returns content, or that the client has it already.
HttpAnswer Content(const HttpRequest& request, std::string type, std::string body, std::string tag,
                   std::string caching) {
  HttpAnswer answer = {.headers = {{"Cache-Control", std::move(caching)},
                                   {"Vary", "Accept-Encoding"},
                                   {"ETag", absl::StrCat("W/", tag)}}};
  if (Has(request, tag)) {
    answer.status = 304;
    return answer;
  }
  answer.content_type = std::move(type);
  answer.body = std::move(body);
  return answer;
}

class PageService final : public HttpService {
 public:
  PageService(CoordinatorLoop& loop, PageRules rules) : rules_(std::move(rules)), api_(loop) {
    for (const PageAsset& asset : PageAssets()) {
      assets_[asset.name] = {.content = asset.content, .tag = TagOf(asset.content)};
    }
  }

  std::optional<HttpAnswer> Refuse(const HttpRequest& request) override {
    const auto host = request.Values("Host");
    if (absl::Status status = CheckHost(host, rules_.hosts); !status.ok()) {
      return ErrorAnswer(status);
    }
    const absl::StatusOr<RequestTarget> target = ParseTarget(request.target);
    if (!target.ok()) return ErrorAnswer(target.status());
    const Room room = RoomOf(target->path);
    const bool posts = room == Room::kCalls && MethodOf(*target) == "POST";
    const bool fits =
        posts ? request.method == "POST" : request.method == "GET" || request.method == "HEAD";
    if (!fits) {
      HttpAnswer refusal = Refusal(405, "this address does not take the request's method");
      refusal.headers.emplace_back("Allow", posts ? "POST" : "GET, HEAD");
      return refusal;
    }
    if (room == Room::kNothing) {
      return ErrorAnswer(absl::NotFoundError("there is nothing at this address"));
    }
    if (posts) return RefusePost(request, host.front());
    if (room != Room::kCalls || rules_.anybody_reads) return std::nullopt;
    const absl::Status status = CheckMayUse(request, "reading");
    if (!status.ok()) return ErrorAnswer(status);
    return std::nullopt;
  }

  HttpAnswer Answer(const HttpRequest& request) override {
    const absl::StatusOr<RequestTarget> target = ParseTarget(request.target);
    // Refuse has parsed it before.
    if (!target.ok()) return ErrorAnswer(target.status());
    switch (RoomOf(target->path)) {
      case Room::kPage:
        return Asset(request, kPage);
      case Room::kIcon:
        return Asset(request, kIcon);
      case Room::kAsset:
        return Asset(request, target->path[1]);
      case Room::kInfo:
        return {.content_type = kJson,
                .body = JsonOf(Info()),
                .headers = {{"Cache-Control", "no-store"}}};
      case Room::kMetrics:
        return Metrics();
      case Room::kCalls:
        return Call(request, *target);
      case Room::kNothing:
        break;
    }
    return ErrorAnswer(absl::NotFoundError("there is nothing at this address"));
  }

 private:
  static absl::string_view MethodOf(const RequestTarget& target) {
    return PageApi::MethodOf(absl::MakeSpan(target.path).subspan(2));
  }

  // Checks that the request has the token, if there is one, for `what`.
  absl::Status CheckMayUse(const HttpRequest& request, absl::string_view what) const {
    if (rules_.token.empty()) {
      return absl::PermissionDeniedError(
          absl::StrCat(what, " is off: the coordinator was started without --page-token-file"));
    }
    return CheckToken(request.Values("Authorization"), rules_.token);
  }

  std::optional<HttpAnswer> RefusePost(const HttpRequest& request, absl::string_view host) const {
    if (absl::Status status = CheckMayUse(request, "changing jobs"); !status.ok()) {
      return ErrorAnswer(status);
    }
    if (absl::Status status = CheckOrigin(request.Values("Origin"), host); !status.ok()) {
      return ErrorAnswer(status);
    }
    if (!IsJson(request.Values("Content-Type")) || !request.Values("Content-Encoding").empty()) {
      return Refusal(415, "the body must be application/json, not compressed");
    }
    return std::nullopt;
  }

  HttpAnswer Asset(const HttpRequest& request, absl::string_view name) const {
    const auto asset = assets_.find(name);
    if (asset == assets_.end()) {
      return ErrorAnswer(absl::NotFoundError("the page has no such file"));
    }
    return Content(request, TypeOf(name), std::string(asset->second.content), asset->second.tag,
                   "no-cache");
  }

  v1::PageInfo Info() const {
    v1::PageInfo info;
    info.set_cancel(!rules_.token.empty());
    info.set_read_needs_token(!rules_.anybody_reads);
    info.set_version(kRelease);
    info.set_unix_ms(absl::ToUnixMillis(absl::Now()));
    return info;
  }

  // Answers with a text that is at most kMetricsAge old: anybody may ask, as often as they like.
  HttpAnswer Metrics() {
    absl::MutexLock lock(&metrics_mutex_);
    const absl::Time now = absl::Now();
    if (metrics_.empty() || now - metrics_time_ >= kMetricsAge || now < metrics_time_) {
      absl::StatusOr<std::string> text = api_.Metrics();
      if (!text.ok()) return ErrorAnswer(text.status());
      metrics_ = *std::move(text);
      metrics_time_ = now;
    }
    return {.content_type = "text/plain; version=0.0.4",
            .body = metrics_,
            .headers = {{"Cache-Control", "no-store"}}};
  }

  HttpAnswer Call(const HttpRequest& request, const RequestTarget& target) {
    absl::StatusOr<std::string> json =
        api_.Answer(absl::MakeSpan(target.path).subspan(2), target.query, request.body);
    if (!json.ok()) return ErrorAnswer(json.status());
    std::string tag = TagOf(*json);
    return Content(request, kJson, *std::move(json), std::move(tag), "no-store");
  }

  struct TaggedAsset {
    absl::string_view content;
    std::string tag;
  };

  const PageRules rules_;
  PageApi api_;
  // The assets by name. Const after construction.
  std::map<absl::string_view, TaggedAsset> assets_;
  absl::Mutex metrics_mutex_;
  std::string metrics_ ABSL_GUARDED_BY(metrics_mutex_);
  absl::Time metrics_time_ ABSL_GUARDED_BY(metrics_mutex_);
};

}  // namespace

std::unique_ptr<HttpService> MakePageService(CoordinatorLoop& loop, PageRules rules) {
  return std::make_unique<PageService>(loop, std::move(rules));
}

}  // namespace muster
