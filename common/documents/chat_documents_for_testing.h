#ifndef MUSTER_COMMON_DOCUMENTS_CHAT_DOCUMENTS_FOR_TESTING_H_
#define MUSTER_COMMON_DOCUMENTS_CHAT_DOCUMENTS_FOR_TESTING_H_

#include <memory>
#include <string>
#include <utility>

#include "common/chat_template/model_chat_template.h"
#include "common/documents/json_documents.h"
#include "common/files/temp_folder.h"
#include "gtest/gtest.h"

namespace muster {

// Options of documents that may be chats, with a template if a test needs one.
class ChatDocumentsTest : public testing::Test {
 protected:
  void UseTemplate(const std::string& text) {
    folder_.Write("chat_template.jinja", text);
    auto opened = ModelChatTemplate::Open(folder_.path());
    ASSERT_TRUE(opened.ok()) << opened.status();
    template_ = std::make_unique<const ModelChatTemplate>(*std::move(opened));
    options_.chat_template = template_.get();
  }

  const TempFolder folder_;
  std::unique_ptr<const ModelChatTemplate> template_;
  JsonDocumentOptions options_;
};

}  // namespace muster

#endif  // MUSTER_COMMON_DOCUMENTS_CHAT_DOCUMENTS_FOR_TESTING_H_
