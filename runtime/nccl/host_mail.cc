#include "runtime/nccl/host_mail.h"

#include <utility>

namespace tessera {

class ThreadsMail::End final : public HostMail {
 public:
  End(ThreadsMail& mail, std::int64_t rank) : mail_(mail), rank_(rank) {}
  void send(std::int64_t to, const MailKey& key, std::string text) override {
    const std::lock_guard lock(mail_.mutex_);
    mail_.mail_[{to, rank_, key}] = std::move(text);
  }
  std::optional<std::string> take(std::int64_t from, const MailKey& key) override {
    const std::lock_guard lock(mail_.mutex_);
    const auto found = mail_.mail_.find({rank_, from, key});
    if (found == mail_.mail_.end()) return std::nullopt;
    std::string text = std::move(found->second);
    mail_.mail_.erase(found);
    return text;
  }

 private:
  ThreadsMail& mail_;
  std::int64_t rank_;
};

std::unique_ptr<HostMail> ThreadsMail::end_of(std::int64_t rank) {
  return std::make_unique<End>(*this, rank);
}

std::vector<std::string> ThreadsMail::exchange(std::int64_t rank, const std::string& own) {
  std::unique_lock lock(mutex_);
  const int round = round_;
  texts_[static_cast<std::size_t>(rank)] = own;
  if (++num_here_ == texts_.size()) {
    num_here_ = 0;
    given_ = texts_;
    ++round_;
    moved_.notify_all();
  }
  moved_.wait(lock, [&] { return round_ > round; });
  return given_;
}

}  // namespace tessera
