from contexture.langgraph import ContextureStore

store = ContextureStore()  # graph = builder.compile(store=store)
store.put(("users", "ann"), "dog", {"text": "The dog is called Rufus."})
store.put(("users", "ann"), "car", {"text": "The car is red."})
print(store.search(("users", "ann"), query="name of the dog")[0].value["text"])
