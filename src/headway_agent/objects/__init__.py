"""Where large objects go and come from: the storage folder of this host, or storage elsewhere."""
