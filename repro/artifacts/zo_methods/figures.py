def figures(): return {}
